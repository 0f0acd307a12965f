(** A store: a ledger that several streams share, with quotas that grow; separate ledgers, some with a period; series of
    budgets. What u has lost by all of it is at most the sum that [dpi verify] prints. *)

From Coq Require Import ZArith List Bool Lia Permutation.
Require Import Ledger Lost Invariant Payments Trace Quota Compression Bounds Epochs Promise.
Import ListNotations.
Open Scope Z_scope.

(** ** What there is, and what is done *)

Record account := { rules : config; its : book }.       (* u's account of a pool, or a sub-account of one *)

Inductive pool :=
  | Shared (accounts : list account)                    (* one ε: first the account of the rest, then one for each quota *)
  | Series (total drawn lost : Z).                      (* budgets that sum to at most ε, and no accounts *)

Definition store := list pool.

Inductive deed :=
  | OpenLedger (c : config)                             (* the ledger that streams share, or one of a separate stream *)
  | OpenSeries (total : Z)
  | OpenQuota (p : nat) (c : config)                    (* a stream with accounts of its own in the ε of pool p: nothing yet *)
  | Grow (p q : nat) (more : Z)                         (* account q of pool p, a quota, gets more of the rest *)
  | Pay (p q : nat) (x : action)                        (* of account q, the rest being 0: a slot, a copy, a restoration *)
  | Draw (p : nat) (e : Z) (here : bool).               (* a slot of a series *)

Definition config_ok (c : config) : bool :=
  (0 <=? epsilon c) && (epsilon c <=? LARGEST) && (0 <=? top c) && (0 <=? period c).
Definition new_account (c : config) (n : Z) : account := {| rules := c; its := opened n |}.

Definition act_on (a : account) (x : action) : option (account * (Z * Z)) :=
  match book_step (rules a) (its a) x with
  | None => None
  | Some (b, out) => Some ({| rules := rules a; its := b |}, out)
  end.

Fixpoint change {A : Type} (n : nat) (x : A) (l : list A) : list A :=
  match l, n with [], _ => [] | _ :: l', O => x :: l' | y :: l', S n' => y :: change n' x l' end.

(** A quota grows by what no user of the rest can have spent, as far as its certificates say. *)
Definition grow (rest quota : account) (units : Z) : option (account * account) :=
  if units <? 0 then None else
  match act_on rest (Assign (assigned (now (of (its rest))) + units) (stated_by_all (rules rest) (its rest))),
        act_on quota (Assign (assigned (now (of (its quota))) - units) 0) with
  | Some (r, _), Some (q, _) => Some (r, q)
  | _, _ => None
  end.

Definition group_in (a : account) (x : action) : nat := own_group (rules a) (of (its a)) x.

(** What a deed makes of the store; and u's group and weight, as far as it is a slot. None is a refusal. *)
Definition store_step (s : store) (d : deed) : option (store * (nat * Z)) :=
  match d with
  | OpenLedger c => if config_ok c then Some (s ++ [Shared [new_account c 0]], (O, 0)) else None
  | OpenSeries total => if 0 <=? total then Some (s ++ [Series total 0 0], (O, 0)) else None
  | OpenQuota p c =>
      match nth_error s p with
      | Some (Shared (rest :: quotas)) =>
          if config_ok c && (epsilon c =? epsilon (rules rest)) && (period c =? 0) && (period (rules rest) =? 0)
          then Some (change p (Shared (rest :: quotas ++ [new_account c (epsilon c)])) s, (O, 0)) else None
      | _ => None
      end
  | Grow p q units =>
      match nth_error s p with
      | Some (Shared (rest :: quotas)) =>
          match nth_error quotas q with
          | Some quota =>
              match grow rest quota units with
              | Some (r, a) => Some (change p (Shared (r :: change q a quotas)) s, (O, 0))
              | None => None
              end
          | None => None
          end
      | _ => None
      end
  | Pay p q x =>
      match nth_error s p with
      | Some (Shared accounts) =>
          match nth_error accounts q with
          | Some a =>
              if assigns x then None else
              match act_on a x with
              | Some (a', (w, _)) => Some (change p (Shared (change q a' accounts)) s, (group_in a x, w))
              | None => None
              end
          | None => None
          end
      | _ => None
      end
  | Draw p e here =>
      match nth_error s p with
      | Some (Series total drawn lost) =>
          if (0 <=? e) && (drawn + e <=? total) then
            let w := if here then GRAINS else 0 in
            Some (change p (Series total (drawn + e) (lost + e * w)) s, (O, w))
          else None
      | _ => None
      end
  end.

(** What happens to a store, in any order and for ever. *)
Inductive history : store -> Prop :=
  | begins_empty : history []
  | continues : forall s d s' out, history s -> store_step s d = Some (s', out) -> history s'.

(** ** What u has lost, and what is printed: [dpi.store.spent.spent_by_all] *)

Definition lost_by (a : account) : Z := sum (map snd (paid (of (its a)))).
Definition lost_of_pool (p : pool) : Z :=
  match p with Shared accounts => sum (map lost_by accounts) | Series _ _ lost => lost end.
Definition lost_in_store (s : store) : Z := sum (map lost_of_pool s).     (* E · grains, summed *)

(** The epochs that a stream has entered. *)
Definition epochs (a : account) (s : Z) : Z :=
  epoch_of (rules a) (last_of (now (of (its a))) s) - epoch_of (rules a) (get 0 s (since (its a))) + 1.
(** The most that a stream can have cost a user, in units ([most_spent] of [dpi.certificates.chain]). *)
Definition cost (a : account) (s : Z) : Z :=
  let b := its a in
  if period (rules a) =? 0 then Z.min (base_of (rules a) b s) (stated (rules a) b s)
  else Z.min (epochs a s * epsilon (rules a))
             (if by_class (rules a) s then stated_with_past b s else get 0 s (billed (seen (of b)))).
Definition printed_for (a : account) : Z := sum (map (cost a) (streams (now (of (its a))))).
Definition epsilon_of (accounts : list account) : Z := match accounts with a :: _ => epsilon (rules a) | [] => 0 end.
Definition period_of (accounts : list account) : Z := match accounts with a :: _ => period (rules a) | [] => 0 end.
Definition printed_of_pool (p : pool) : Z :=
  match p with
  | Shared accounts =>
      let costs := sum (map printed_for accounts) in
      if period_of accounts =? 0 then Z.min (epsilon_of accounts) costs else costs
  | Series total drawn _ => Z.min total drawn
  end.
Definition printed (s : store) : Z := sum (map printed_of_pool s).

(** What is promised before anything is released: ε of each pool, once or for every epoch that was entered. *)
Definition promised_of_pool (p : pool) : Z :=
  match p with
  | Shared accounts =>
      if period_of accounts =? 0 then epsilon_of accounts
      else sum (map (fun a => sum (map (fun s => epochs a s * epsilon (rules a)) (streams (now (of (its a)))))) accounts)
  | Series total _ _ => total
  end.
Definition promised (s : store) : Z := sum (map promised_of_pool s).

(** ** One account: dates and sums *)

Lemma settle_plain : forall cfg st s t price grains seen' st' g d, 0 <= price -> 0 <= grains ->
  settle cfg st s t price grains seen' = Some (st', (g, d)) ->
  d = debit price grains /\ g = grains /\ slots (now st') = set s t (slots (now st)) /\
  paid st' = (epoch_of cfg t, d, price * grains) :: paid st /\ seen st' = seen'.
Proof.
  intros cfg st s t price grains seen' st' g d P G E. unfold settle, pay in E. pose proof (debit_nonneg price grains P G).
  destruct (Z.leb_spec (debit price grains) 0).
  - injection E as <- <- <-. cbn. replace (debit price grains) with 0 by lia. auto.
  - destruct (_ <? _) in E; [discriminate|]. injection E as <- <- <-. cbn. auto.
Qed.

Record dated (c : config) (b : book) : Prop := {
  d_paid : forall p, In p (paid (of b)) -> exists s, In s (streams (now (of b))) /\
    epoch_of c (get 0 s (since b)) <= fst (fst p) <= epoch_of c (last_of (now (of b)) s);
  d_since : map fst (since b) = streams (now (of b));
  d_order : forall s, In s (streams (now (of b))) -> get 0 s (since b) <= last_of (now (of b)) s;
  d_keys : map fst (paid_in b) = streams (now (of b));
  d_sum : sum (map snd (paid_in b)) = sum (map (fun p => snd (fst p)) (paid (of b)));
  d_billed : forall s, by_class c s = false -> paid_by (paid_in b) s <= get 0 s (billed (seen (of b)))
}.

Lemma sum_more : forall s d l, sum (map snd (more s d l)) = sum (map snd l) + d.
Proof.
  intros s d l. unfold more, paid_by. assert (A : forall x, sum (map snd (set s (get 0 s l + x) l)) = sum (map snd l) + x).
  { induction l as [|[k v] l IH]; intros x; cbn [set get]; [cbn; lia|]. destruct (k =? s).
    - cbn [map snd]. change (sum (?a :: ?r)) with (a + sum r). lia.
    - cbn [map snd]. change (v + sum (map snd (set s (get 0 s l + x) l)) = v + sum (map snd l) + x). rewrite IH. lia. }
  apply A.
Qed.

Section Account.
Variable c : config.
Hypothesis epsilon_range : 0 <= epsilon c <= LARGEST.
Hypothesis top_range : 0 <= top c.
Hypothesis period_range : 0 <= period c.

Lemma paying_stays_dated : forall b s t d st' x r, dated c b -> in_turn c (now (of b)) s t = true ->
  slots (now st') = set s t (slots (now (of b))) -> paid st' = (epoch_of c t, d, x) :: paid (of b) ->
  (forall y, get 0 y (billed (seen (of b))) <= get 0 y (billed (seen st'))) ->
  (by_class c s = false -> get 0 s (billed (seen (of b))) + d <= get 0 s (billed (seen st'))) ->
  since r = first_of b s t -> of r = st' -> paid_in r = more s d (paid_in b) -> dated c r.
Proof.
  intros b s t d st' x r [D1 D2 D3 D4 D5 D6] T Es Ep Bi Bd Rs Ro Rp. destruct (in_turn_spec c _ _ _ T) as [T1 _].
  assert (Hs : has s (since b) = has s (slots (now (of b)))).
  { apply eq_true_iff_eq. rewrite !has_in, D2. reflexivity. }
  assert (Str : streams (now st') = if has s (slots (now (of b))) then streams (now (of b)) else streams (now (of b)) ++ [s])
    by (unfold streams; rewrite Es; apply keys_set).
  assert (Last : forall y, last_of (now st') y = if s =? y then t else last_of (now (of b)) y)
    by (intros; unfold last_of; rewrite Es; apply get_set).
  assert (Since : forall y, get 0 y (since r) = if (s =? y) && negb (has s (slots (now (of b)))) then t else get 0 y (since b)).
  { intros y. rewrite Rs. unfold first_of. rewrite Hs. destruct (has s (slots (now (of b)))); [now rewrite andb_false_r|].
    rewrite get_set, andb_true_r. reflexivity. }
  assert (In_ : forall y, In y (streams (now (of b))) -> In y (streams (now st'))).
  { intros y Y. rewrite Str. destruct (has s (slots (now (of b)))); [assumption|]. apply in_or_app. now left. }
  assert (Is : In s (streams (now st'))).
  { rewrite Str. destruct (has s (slots (now (of b)))) eqn:H; [now apply has_in|]. apply in_or_app. right. now left. }
  assert (Up : forall y, In y (streams (now (of b))) -> get 0 y (since r) = get 0 y (since b) /\ last_of (now (of b)) y <= last_of (now st') y).
  { intros y Y. rewrite Since, Last. destruct (Z.eqb_spec s y) as [<-|N]; [|split; [reflexivity|lia]].
    specialize (T1 Y). apply has_in in Y. rewrite Y. cbn. split; [reflexivity|lia]. }
  assert (First : get 0 s (since r) <= last_of (now st') s).
  { rewrite Since, Last, Z.eqb_refl. destruct (has s (slots (now (of b)))) eqn:H; cbn; [|lia].
    apply has_in in H. specialize (T1 H). specialize (D3 s H). lia. }
  constructor; rewrite ?Ro.
  - intros p X. rewrite Ep in X. destruct X as [<-|X].
    + exists s. split; [assumption|]. cbn [fst]. rewrite Last in *. rewrite Z.eqb_refl in *.
      split; [apply (epoch_mono c period_range), First|lia].
    + destruct (D1 p X) as (y & Y & L). exists y. split; [auto|]. destruct (Up y Y) as [-> U].
      pose proof (epoch_mono c period_range _ _ U). lia.
  - rewrite Rs, Str. unfold first_of. rewrite Hs. destruct (has s (slots (now (of b)))) eqn:H; [assumption|].
    rewrite keys_set, Hs, D2. reflexivity.
  - intros y Y. destruct (Z.eq_dec y s) as [->|N]; [exact First|]. rewrite Str in Y.
    assert (Y' : In y (streams (now (of b)))).
    { destruct (has s (slots (now (of b)))); [assumption|]. apply in_app_or in Y as [Y|[Y|[]]]; [assumption|congruence]. }
    destruct (Up y Y') as [-> U]. specialize (D3 y Y'). lia.
  - rewrite Rp, Str. unfold more. rewrite keys_set.
    assert (Hp : has s (paid_in b) = has s (slots (now (of b)))) by (apply eq_true_iff_eq; rewrite !has_in, D4; reflexivity).
    rewrite Hp, D4. reflexivity.
  - rewrite Rp, sum_more, Ep, D5. cbn [map fst snd]. change (sum (?a :: ?l)) with (a + sum l). lia.
  - intros y Y. rewrite Rp. unfold paid_by at 1, more. rewrite get_set. destruct (Z.eqb_spec s y) as [<-|N].
    + specialize (D6 s Y). specialize (Bd Y). lia.
    + specialize (D6 y Y). unfold paid_by in D6. specialize (Bi y). lia.
Qed.

Lemma all_dated : forall b, book_trace c b -> dated c b.
Proof.
  induction 1 as [n N|b x b' out T D E].
  - constructor; try reflexivity; try (intros ? []).
  - unfold book_step in E. destruct (negb (allowed c b x)); [discriminate|].
    destruct (step c (of b) x) as [[st' [g d]]|] eqn:Q; [|discriminate]. pose proof GRAINS_pos as Gp.
    destruct x; injection E as <- _; cbn [step] in Q.
    + destruct (_ && _) eqn:G in Q; [|discriminate]. rewrite !andb_true_iff in G. destruct G as [[[[[Tn C] E0] _] _] _].
      apply negb_true_iff in C. apply Z.leb_le in E0.
      assert (W : 0 <= (if here then weight (whole_or_none whole (weights_by_policy c (now (of b)) (epoch_of c slot) e num den)) else 0) <= GRAINS)
        by (destruct here; [apply weight_range|lia]).
      destruct (settle_plain _ _ _ _ _ _ _ _ _ _ E0 (proj1 W) Q) as (Ed & _ & Es & Ep & Se).
      assert (De : d <= e) by (rewrite Ed; apply debit_le; apply Z.mul_le_mono_nonneg_l; lia).
      eapply (paying_stays_dated b stream slot d st'); try reflexivity; eauto; rewrite Se; cbn [billed].
      * intros y. rewrite get_set. destruct (Z.eqb_spec stream y); subst; lia.
      * intros _. rewrite get_set, Z.eqb_refl. lia.
    + destruct (_ && _) eqn:G in Q; [|discriminate]. rewrite !andb_true_iff in G. destruct G as [[Tn C] Wa].
      destruct (weights_by_class c (now (of b)) stream (epoch_of c slot) groups) as [price gr] eqn:W.
      assert (P : 0 <= price).
      { destruct (due_spec c groups (class_of c (now (of b)) stream (epoch_of c slot)) Wa) as [P0 _].
        unfold weights_by_class in W. destruct (due _ groups) as [p f]. injection W as <- _. exact P0. }
      assert (Wr : 0 <= (if here then weight (whole_or_none whole gr) else 0)) by (destruct here; [apply weight_range|lia]).
      destruct (settle_plain _ _ _ _ _ _ _ _ _ _ P Wr Q) as (Ed & _ & Es & Ep & Se).
      eapply (paying_stays_dated b stream slot d st'); try reflexivity; eauto; rewrite Se; cbn [billed]; [intros; lia|congruence].
    + exact D.
    + destruct (_ && _) in Q; [|discriminate]. injection Q as <- _ _. destruct D. constructor; assumption.
    + injection Q as <- _ _. destruct D. constructor; assumption.
    + destruct (nth_error (copies (of b)) number) as [[k bt]|]; [|discriminate]. destruct (_ && _) in Q; [|discriminate].
      assert (Es : slots (charge_lost c (of b) (k, bt)) = slots (now (of b))) by (unfold charge_lost; destruct (existsb _ _); reflexivity).
      set (a := charge_lost c (of b) (k, bt)) in *. clearbody a. injection Q as <- _ _. destruct D as [D1 D2 D3 D4 D5 D6].
      constructor; cbn [of now since paid_in paid seen billed]; unfold streams, last_of in *; rewrite ?Es; assumption.
Qed.

Lemma nodup_one : forall (l : list Z), NoDup l -> (forall x y, In x l -> In y l -> x = y) -> l = [] \/ exists s, l = [s].
Proof.
  intros [|x [|y l]] N H; [now left|right; eauto|]. exfalso. inversion N as [|? ? N1 _]; subst. apply N1.
  rewrite (H x y); [now left|now left|right; now left].
Qed.

Lemma zrange_nodup : forall n a, NoDup (zrange a n).
Proof.
  induction n as [|n IH]; intros a; cbn; constructor; [|apply IH]. intros X. apply zrange_in in X. lia.
Qed.

Lemma zrange_length : forall n a, length (zrange a n) = n.
Proof. induction n; intros; cbn; auto. Qed.

(** What u has lost by one account is at most what its streams state, and what the account holds. *)
Lemma account_loss : forall b, book_trace c b ->
  sum (map snd (paid (of b))) <= printed_for {| rules := c; its := b |} * GRAINS /\
  (period c = 0 -> sum (map snd (paid (of b))) <= held c (now (of b)) * GRAINS).
Proof.
  intros b T. destruct (bounds_hold c epsilon_range top_range period_range b T) as [Tr B].
  pose proof (trace_invariant c epsilon_range top_range period_range _ Tr) as I. pose proof GRAINS_pos as Gp.
  pose proof (all_dated b T) as [D1 D2 D3 D4 D5 D6].
  assert (Ld : sum (map snd (paid (of b))) <= sum (map (fun p => snd (fst p)) (paid (of b))) * GRAINS).
  { pose proof (fun p X => proj1 (proj2 (i_paid c _ I p X))) as L. clear -L Gp. induction (paid (of b)) as [|p l IH]; [cbn; lia|].
    specialize (IH (fun q X => L q (or_intror X))). specialize (L p (or_introl eq_refl)).
    change (snd p + sum (map snd l) <= (snd (fst p) + sum (map (fun p => snd (fst p)) l)) * GRAINS). lia. }
  unfold printed_for, cost. cbn [rules its]. destruct (Z.eqb_spec (period c) 0) as [P|P].
  - specialize (B P).
    assert (All : sum (map (fun p => snd (fst p)) (paid (of b))) = debits 0 (paid (of b))).
    { unfold debits. f_equal. apply map_ext_in. intros p X. rewrite (proj2 (proj2 (i_paid c _ I p X)) P). reflexivity. }
    pose proof (i_epoch c _ I 0) as Hd. split; [|intros _; nia].
    enough (debits 0 (paid (of b)) <= sum (map (fun s => Z.min (base_of c b s) (stated c b s)) (streams (now (of b))))) by nia.
    destruct (stated_covers c epsilon_range top_range period_range b T P) as [St _]. rewrite (b_sum c b B) in *.
    apply sum_le. intros s S. pose proof (b_base c b B s). specialize (St s).
    pose proof (sum_ge (streams (now (of b))) (paid_by (paid_in b)) s S (fun x _ => g_nonneg _ _ _ _ _ _ _ (b_now c b B) x)). lia.
  - split; [|intros; contradiction].
    destruct (nodup_one (streams (now (of b))) (i_streams c _ I) (fun x y X Y => i_single c _ I P x y X Y)) as [E|[s E]].
    + rewrite E. cbn. destruct (paid (of b)) as [|p l] eqn:Pd; [cbn; lia|].
      destruct (D1 p ltac:(now left)) as (s & S & _). rewrite E in S. destruct S.
    + rewrite E in *. cbn [map]. change (sum [?x]) with (x + 0). rewrite Z.add_0_r.
      set (e0 := epoch_of c (get 0 s (since b))) in *. set (n := epochs {| rules := c; its := b |} s).
      assert (N : n = epoch_of c (last_of (now (of b)) s) - e0 + 1) by reflexivity.
      specialize (D3 s ltac:(now left)). pose proof (epoch_mono c period_range _ _ D3) as Ep.
      assert (Ks : sum (map snd (paid (of b))) <= n * epsilon c * GRAINS).
      { set (ks := zrange e0 (Z.to_nat n)).
        rewrite (sum_of_epochs ks); [|apply zrange_nodup|].
        - assert (L : forall l, sum (map (fun k => losses k (paid (of b))) l) <= Z.of_nat (length l) * (epsilon c * GRAINS)).
          { induction l as [|k l IH]; [cbn; lia|]. pose proof (ledger_keeps_epsilon c epsilon_range top_range period_range _ Tr k).
            change (losses k (paid (of b)) + sum (map (fun k => losses k (paid (of b))) l) <= Z.of_nat (S (length l)) * (epsilon c * GRAINS)). lia. }
          specialize (L ks). unfold ks at 2 in L. rewrite zrange_length in L. lia.
        - intros p X. destruct (D1 p X) as (y & [<-|[]] & Y). apply zrange_in. fold e0 in Y. lia. }
      destruct (by_class c s) eqn:C.
      { pose proof (stated_with_past_covers c epsilon_range top_range ltac:(lia) b s T E C). nia. }
      specialize (D6 s C).
      assert (X : sum (map snd (paid_in b)) = paid_by (paid_in b) s).
      { destruct (paid_in b) as [|[k v] [|]]; try discriminate. cbn in D4. injection D4 as ->. unfold paid_by. cbn. rewrite Z.eqb_refl. lia. }
      rewrite X in D5. nia.
Qed.

End Account.

(** ** Pools and the store *)

Lemma in_change : forall (A : Type) (l : list A) n x y, In y (change n x l) -> y = x \/ In y l.
Proof.
  induction l as [|z l IH]; intros n x y H; [destruct n; destruct H|]. destruct n as [|n]; cbn in H; destruct H as [E|H].
  - now left.
  - right. now right.
  - right. now left.
  - destruct (IH _ _ _ H); [now left|right; now right].
Qed.

Lemma length_change : forall (A : Type) (l : list A) n x, length (change n x l) = length l.
Proof. induction l; intros [|n] x; cbn; auto. Qed.

Lemma sum_change : forall (A : Type) (f : A -> Z) l n x y, nth_error l n = Some x ->
  sum (map f (change n y l)) = sum (map f l) - f x + f y.
Proof.
  intros A f. induction l as [|z l IH]; intros [|n] x y H; try discriminate; cbn in H |- *; fold (sum (map f l)).
  - injection H as ->. lia.
  - fold (sum (map f (change n y l))). rewrite (IH n x y H). lia.
Qed.

Definition held_by (a : account) : Z := held (rules a) (now (of (its a))).

Definition accounts_ok (e n : Z) (l : list account) : Prop :=
  l <> [] /\ (forall a, In a l -> config_ok (rules a) = true /\ book_trace (rules a) (its a) /\ epsilon (rules a) = e /\ period (rules a) = n) /\
  (n <> 0 -> length l = 1%nat) /\ sum (map held_by l) = e.

Definition pool_ok (p : pool) : Prop :=
  match p with
  | Shared l => exists e n, accounts_ok e n l
  | Series total drawn lost => 0 <= drawn <= total /\ lost <= drawn * GRAINS
  end.

Lemma act_on_spec : forall a x a' out, act_on a x = Some (a', out) ->
  rules a' = rules a /\ (book_trace (rules a) (its a) -> book_trace (rules a) (its a')) /\
  exists st', step (rules a) (of (its a)) x = Some (st', out) /\ of (its a') = st'.
Proof.
  intros a x a' [w d] E. unfold act_on in E. destruct (book_step (rules a) (its a) x) as [[b o]|] eqn:Q; [|discriminate].
  injection E as <- ->. cbn [rules its]. split; [reflexivity|]. split; [intros T; exact (book_goes_on _ _ _ _ _ T Q)|].
  unfold book_step in Q. destruct (negb _) eqn:Al; [discriminate|]. destruct (step _ _ x) as [[st' [g c]]|]; [|discriminate].
  injection Q as <- <- <-. exists st'. split; [reflexivity|]. destruct x; try reflexivity. discriminate Al.
Qed.

Lemma accounts_change : forall e n l q a a', accounts_ok e n l -> nth_error l q = Some a -> rules a' = rules a ->
  book_trace (rules a) (its a') -> held_by a' = held_by a -> accounts_ok e n (change q a' l).
Proof.
  intros e n l q a a' (L1 & L2 & L3 & L4) N R T H. pose proof (nth_error_In _ _ N) as In_. split; [|split; [|split]].
  - intros E. apply L1, length_zero_iff_nil. rewrite <- (length_change _ l q a'), E. reflexivity.
  - intros y Y. apply in_change in Y as [->|Y]; [|now apply L2]. rewrite R. destruct (L2 a In_) as (A & _ & B & C). auto.
  - intros X. rewrite length_change. auto.
  - rewrite (sum_change _ held_by l q a a' N), H. lia.
Qed.

Lemma grow_spec : forall rest quota units r q, grow rest quota units = Some (r, q) ->
  rules r = rules rest /\ rules q = rules quota /\ (book_trace (rules rest) (its rest) -> book_trace (rules rest) (its r)) /\
  (book_trace (rules quota) (its quota) -> book_trace (rules quota) (its q)) /\
  held_by r = held_by rest - units /\ held_by q = held_by quota + units /\
  paid (of (its r)) = paid (of (its rest)) /\ paid (of (its q)) = paid (of (its quota)).
Proof.
  intros rest quota units r q E. unfold grow in E. destruct (units <? 0); [discriminate|].
  destruct (act_on rest _) as [[r' o]|] eqn:A; [|discriminate]. destruct (act_on quota _) as [[q' o']|] eqn:B; [|discriminate].
  injection E as -> ->. destruct (act_on_spec _ _ _ _ A) as (R1 & R2 & st & R3 & R4). destruct (act_on_spec _ _ _ _ B) as (Q1 & Q2 & st' & Q3 & Q4).
  unfold held_by, held. rewrite R1, Q1, R4, Q4, (assign_sets _ _ _ _ _ _ R3), (assign_sets _ _ _ _ _ _ Q3).
  cbn [step] in R3, Q3. destruct (_ && _) in R3; [|discriminate]. destruct (_ && _) in Q3; [|discriminate].
  injection R3 as <- _. injection Q3 as <- _. repeat split; auto; lia.
Qed.

(** Every pool keeps to its rules: quotas and the rest are ε together, and every account is a trace of the ledger. *)
Theorem history_ok : forall s, history s -> forall p, In p s -> pool_ok p.
Proof.
  induction 1 as [|s d s' out _ IH E]; [intros p []|].
  assert (Put : forall n p', pool_ok p' -> forall p, In p (change n p' s) -> pool_ok p)
    by (intros n p' P p X; apply in_change in X as [->|X]; auto).
  destruct d as [c|total|n c|n q units|n q x|n e here]; cbn [store_step] in E.
  - destruct (config_ok c) eqn:C; [|discriminate]. injection E as <- _. intros p X. apply in_app_or in X as [X|[<-|[]]]; [auto|].
    exists (epsilon c), (period c). split; [discriminate|]. split; [|split; [reflexivity|unfold held_by, held; cbn; lia]].
    intros a [<-|[]]. cbn. repeat split; auto. constructor. unfold config_ok in C. rewrite !andb_true_iff, !Z.leb_le in C. lia.
  - destruct (Z.leb_spec 0 total); [|discriminate]. injection E as <- _. intros p X. apply in_app_or in X as [X|[<-|[]]]; [auto|]. cbn. lia.
  - destruct (nth_error s n) as [[[|rest quotas]|]|] eqn:N; try discriminate. destruct (_ && _) eqn:G in E; [|discriminate]. injection E as <- _.
    rewrite !andb_true_iff, !Z.eqb_eq in G. destruct G as [[[C Ee] P1] P2].
    destruct (IH _ (nth_error_In _ _ N)) as (e & k & L1 & L2 & L3 & L4). apply Put. exists e, k.
    destruct (L2 rest (or_introl eq_refl)) as (_ & _ & Er & Pr). rewrite app_comm_cons. split; [discriminate|]. split; [|split].
    + intros a X. apply in_app_or in X as [X|[<-|[]]]; [now apply L2|]. cbn. repeat split; auto; try congruence.
      constructor. unfold config_ok in C. rewrite !andb_true_iff, !Z.leb_le in C. lia.
    + congruence.
    + rewrite map_app, sum_app, L4. unfold held_by, held. cbn. lia.
  - destruct (nth_error s n) as [[[|rest quotas]|]|] eqn:N; try discriminate.
    destruct (nth_error quotas q) as [quota|] eqn:Nq; [|discriminate]. destruct (grow rest quota units) as [[r a]|] eqn:G; [|discriminate].
    injection E as <- _. destruct (grow_spec _ _ _ _ _ G) as (R1 & R2 & R3 & R4 & R5 & R6 & _).
    destruct (IH _ (nth_error_In _ _ N)) as (e & k & L1 & L2 & L3 & L4). apply Put. exists e, k.
    pose proof (nth_error_In _ _ Nq) as Iq. split; [discriminate|]. split; [|split].
    + intros y [<-|Y].
      * rewrite R1. destruct (L2 rest (or_introl eq_refl)) as (A & B & C & D). auto.
      * apply in_change in Y as [->|Y]; [|apply L2; now right]. rewrite R2. destruct (L2 quota (or_intror Iq)) as (A & B & C & D). auto.
    + intros X. specialize (L3 X). cbn in L3 |- *. now rewrite length_change.
    + cbn [map] in *. change (sum (?a :: ?l)) with (a + sum l) in *. rewrite (sum_change _ held_by quotas q quota a Nq). lia.
  - destruct (nth_error s n) as [[l|]|] eqn:N; try discriminate. destruct (nth_error l q) as [a|] eqn:Nq; [|discriminate].
    destruct (assigns x) eqn:As; [discriminate|]. destruct (act_on a x) as [[a' [w c]]|] eqn:Q; [|discriminate]. injection E as <- _.
    destruct (act_on_spec _ _ _ _ Q) as (R1 & R2 & st & R3 & R4).
    destruct (IH _ (nth_error_In _ _ N)) as (e & k & L). apply Put. exists e, k. apply (accounts_change e k l q a a'); auto.
    + apply R2. destruct L as (_ & L2 & _). apply (L2 a), (nth_error_In _ _ Nq).
    + unfold held_by, held. now rewrite R1, R4, (assigned_stays _ _ _ _ _ As R3).
  - destruct (nth_error s n) as [[|total drawn lost]|] eqn:N; try discriminate. destruct (_ && _) eqn:G in E; [|discriminate]. injection E as <- _.
    apply andb_true_iff in G as [G1 G2]. apply Z.leb_le in G1, G2. pose proof (IH _ (nth_error_In _ _ N)) as [D L]. apply Put. cbn.
    pose proof GRAINS_pos. destruct here; nia.
Qed.

Lemma config_range : forall c, config_ok c = true -> 0 <= epsilon c <= LARGEST /\ 0 <= top c /\ 0 <= period c.
Proof. intros c C. unfold config_ok in C. rewrite !andb_true_iff, !Z.leb_le in C. lia. Qed.

Lemma pool_loss : forall p, pool_ok p -> lost_of_pool p <= printed_of_pool p * GRAINS /\ printed_of_pool p <= promised_of_pool p.
Proof.
  intros [l|total drawn lost] P; cbn [lost_of_pool printed_of_pool promised_of_pool].
  2:{ destruct P as [D L]. rewrite Z.min_r by lia. lia. }
  destruct P as (e & n & L1 & L2 & L3 & L4). pose proof GRAINS_pos as Gp.
  assert (He : epsilon_of l = e /\ period_of l = n) by (destruct l as [|a l]; [congruence|]; cbn; destruct (L2 a (or_introl eq_refl)); tauto).
  destruct He as [-> ->].
  assert (A : sum (map lost_by l) <= sum (map printed_for l) * GRAINS /\ (n = 0 -> sum (map lost_by l) <= sum (map held_by l) * GRAINS)).
  { clear L1 L3 L4. induction l as [|a l IH]; [cbn; lia|]. destruct (IH (fun y Y => L2 y (or_intror Y))) as [I1 I2].
    destruct (L2 a (or_introl eq_refl)) as (C & T & _ & Pn). destruct (config_range _ C) as (C1 & C2 & C3).
    destruct (account_loss (rules a) C1 C2 C3 (its a) T) as [A1 A2]. replace {| rules := rules a; its := its a |} with a in A1 by (now destruct a).
    cbn [map]. split; [change (lost_by a + sum (map lost_by l) <= (printed_for a + sum (map printed_for l)) * GRAINS)|
      intros X; specialize (I2 X); rewrite Pn in A2; specialize (A2 X);
      change (lost_by a + sum (map lost_by l) <= (held_by a + sum (map held_by l)) * GRAINS)];
      unfold lost_by, held_by in *; lia. }
  destruct A as [A1 A2]. destruct (Z.eqb_spec n 0) as [N|N]; [specialize (A2 N); split; nia|]. split; [assumption|].
  clear A1 A2 L1 L3 L4. induction l as [|a l IH]; [cbn; lia|]. specialize (IH (fun y Y => L2 y (or_intror Y))).
  destruct (L2 a (or_introl eq_refl)) as (_ & _ & _ & Pn).
  assert (B : printed_for a <= sum (map (fun s => epochs a s * epsilon (rules a)) (streams (now (of (its a)))))).
  { apply sum_le. intros s _. unfold cost. rewrite Pn. destruct (Z.eqb_spec n 0); [contradiction|]. lia. }
  cbn [map]. change (sum (?u :: ?v)) with (u + sum v). lia.
Qed.

(** What u has lost by all streams of a store is at most the sum that [dpi verify] prints, and that is at most what was
    promised: the sum of all ε. *)
Theorem store_loses_what_verify_prints : forall s, history s ->
  lost_in_store s <= printed s * GRAINS /\ printed s <= promised s.
Proof.
  intros s H. pose proof (history_ok s H) as P. clear H. unfold lost_in_store, printed, promised.
  induction s as [|p s IH]; [cbn; lia|]. destruct (IH (fun q Q => P q (or_intror Q))) as [I1 I2].
  destruct (pool_loss p (P p (or_introl eq_refl))) as [L1 L2]. cbn [map].
  split; [change (lost_of_pool p + sum (map lost_of_pool s) <= (printed_of_pool p + sum (map printed_of_pool s)) * GRAINS)|
          change (printed_of_pool p + sum (map printed_of_pool s) <= promised_of_pool p + sum (map promised_of_pool s))]; lia.
Qed.

(** ** What a deed costs u: the price of the histogram that u is in, times the weight *)

Definition prices (d : deed) : list Z := match d with Pay _ _ x => measured x | Draw _ e _ => [e] | _ => [] end.

Lemma step_adds : forall cfg st x st' w d, step cfg st x = Some (st', (w, d)) ->
  0 <= w /\ sum (map snd (paid st')) = nth (own_group cfg st x) (measured x) 0 * w + sum (map snd (paid st)) /\
  forall p, In p (measured x) -> 0 <= p.
Proof.
  intros cfg st x st' w d Q. pose proof GRAINS_pos as Gp.
  destruct x as [s t e num den wh here|s t groups wh here| | | |n]; cbn [step measured own_group] in *.
  - destruct (_ && _) eqn:G in Q; [|discriminate]. rewrite !andb_true_iff in G. destruct G as [[[[_ E] _] _] _]. apply Z.leb_le in E.
    apply settle_grains in Q as [-> (k & c & ->)]. split; [destruct here; [apply weight_range|lia]|]. split; [reflexivity|].
    intros p [<-|[]]. exact E.
  - destruct (_ && _) eqn:G in Q; [|discriminate]. rewrite !andb_true_iff in G. destruct G as [_ Wa].
    destruct (weights_by_class cfg (now st) s (epoch_of cfg t) groups) as [price gr] eqn:W.
    apply settle_grains in Q as [-> (k & c & ->)].
    split; [destruct here; [apply weight_range|lia]|]. split.
    + match goal with |- sum (map snd ((_, _, ?p) :: ?l)) = _ => change (sum (map snd ((k, c, p) :: l))) with (p + sum (map snd l)) end.
      unfold weights_by_class in W. destruct (group_price groups (class_of cfg (now st) s (epoch_of cfg t))) as [Z0|P].
      * destruct (due _ groups) as [p steps]. cbn in Z0. subst steps. injection W as <- <-.
        assert (Zero : parts (left_at cfg (now st) (epoch_of cfg t)) 0 = 0)
          by (unfold parts; rewrite Z.mul_0_r; apply Z.div_0_l; pose proof STEPS_pos; lia).
        rewrite Zero. cbn [Z.ltb Z.compare].
        assert (Z1 : (if here then weight (whole_or_none wh 0) else 0) = 0)
          by (destruct here; [|reflexivity]; unfold whole_or_none, weight; destruct (wh && _); lia).
        rewrite Z1. lia.
      * rewrite P. destruct (due _ groups) as [p steps]. injection W as <- _. reflexivity.
    + intros p I. apply in_map_iff in I as [g [<- I]]. unfold well_asked in Wa. rewrite forallb_forall in Wa. specialize (Wa g I).
      apply andb_true_iff in Wa as [Wa _]. now apply Z.leb_le.
  - destruct (0 <=? units); [|discriminate]. injection Q as <- <- _. cbn [paid nth]. split; [lia|]. split; [lia|intros p []].
  - destruct (_ && _) in Q; [|discriminate]. injection Q as <- <- _. cbn [paid nth]. split; [lia|]. split; [lia|intros p []].
  - injection Q as <- <- _. cbn [paid nth]. split; [lia|]. split; [lia|intros p []].
  - destruct (nth_error (copies st) n) as [[c0 bt]|]; [|discriminate]. destruct (_ && _) in Q; [|discriminate].
    injection Q as <- <- _. cbn [paid nth]. split; [lia|]. split; [lia|intros p []].
Qed.

Lemma store_step_loss : forall s d s' g w, store_step s d = Some (s', (g, w)) ->
  0 <= w /\ lost_in_store s' = lost_in_store s + nth g (prices d) 0 * w /\ forall p, In p (prices d) -> 0 <= p.
Proof.
  intros s d s' g w E. pose proof GRAINS_pos as Gp. unfold lost_in_store.
  destruct d as [c|total|n c|n q units|n q x|n e here]; cbn [store_step prices] in *.
  - destruct (config_ok c); [|discriminate]. injection E as <- <- <-. rewrite map_app, sum_app. cbn. split; [lia|]. split; [lia|intros p []].
  - destruct (0 <=? total); [|discriminate]. injection E as <- <- <-. rewrite map_app, sum_app. cbn. split; [lia|]. split; [lia|intros p []].
  - destruct (nth_error s n) as [[[|rest quotas]|]|] eqn:N; try discriminate. destruct (_ && _) in E; [|discriminate]. injection E as <- <- <-.
    rewrite (sum_change _ lost_of_pool s n _ _ N). cbn [lost_of_pool nth]. rewrite app_comm_cons, map_app, sum_app. cbn [map].
    change (sum [lost_by (new_account c (epsilon c))]) with 0. split; [lia|]. split; [lia|intros p []].
  - destruct (nth_error s n) as [[[|rest quotas]|]|] eqn:N; try discriminate.
    destruct (nth_error quotas q) as [quota|] eqn:Nq; [|discriminate]. destruct (grow rest quota units) as [[r a]|] eqn:G; [|discriminate].
    injection E as <- <- <-. destruct (grow_spec _ _ _ _ _ G) as (_ & _ & _ & _ & _ & _ & R7 & R8).
    rewrite (sum_change _ lost_of_pool s n _ _ N). cbn [lost_of_pool map nth]. change (sum (?u :: ?v)) with (u + sum v).
    rewrite (sum_change _ lost_by quotas q quota a Nq). unfold lost_by. rewrite R7, R8. split; [lia|]. split; [lia|intros p []].
  - destruct (nth_error s n) as [[l|]|] eqn:N; try discriminate. destruct (nth_error l q) as [a|] eqn:Nq; [|discriminate].
    destruct (assigns x) eqn:As; [discriminate|]. destruct (act_on a x) as [[a' [w' c]]|] eqn:Q; [|discriminate]. injection E as <- <- <-.
    destruct (act_on_spec _ _ _ _ Q) as (R1 & R2 & st & R3 & R4). destruct (step_adds _ _ _ _ _ _ R3) as (W & L & P).
    split; [assumption|]. split; [|assumption].
    rewrite (sum_change _ lost_of_pool s n _ _ N). cbn [lost_of_pool]. rewrite (sum_change _ lost_by l q a a' Nq).
    assert (La : lost_by a' = nth (group_in a x) (measured x) 0 * w' + lost_by a) by (unfold lost_by; rewrite R4; exact L).
    rewrite La. lia.
  - destruct (nth_error s n) as [[|total drawn lost]|] eqn:N; try discriminate. destruct (_ && _) eqn:G in E; [|discriminate]. injection E as <- <- <-.
    apply andb_true_iff in G as [G1 G2]. apply Z.leb_le in G1, G2.
    rewrite (sum_change _ lost_of_pool s n _ _ N). cbn [lost_of_pool nth]. split; [destruct here; lia|]. split; [lia|]. intros p [<-|[]]. exact G1.
Qed.
