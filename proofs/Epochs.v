(** Public bounds by class where accounts are refilled: what was spent in the epochs before, and in this one. *)

From Coq Require Import ZArith List Bool Lia.
Require Import Ledger Lost Invariant Payments Trace Bounds.
Import ListNotations.
Open Scope Z_scope.

Section Epochs.
Variable cfg : config.
Hypothesis epsilon_range : 0 <= epsilon cfg <= LARGEST.
Hypothesis top_range : 0 <= top cfg.
Hypothesis periodic : 0 < period cfg.

Notation left_at := (left_at cfg).
Notation class_of := (class_of cfg).
Notation held := (held cfg).
Notation invariant := (invariant cfg).
Notation epoch_now := (epoch_now cfg).
Notation first_lost := (first_lost cfg).

Lemma period_range : 0 <= period cfg.
Proof. lia. Qed.

(** What was paid before an epoch. *)
Definition before (k : Z) (l : list (Z * Z * Z)) : Z := sum (map (fun p => if fst (fst p) <? k then snd (fst p) else 0) l).

Lemma before_next : forall l k, before (k + 1) l = before k l + debits k l.
Proof.
  induction l as [|[[e d] x] l IH]; intros k; [reflexivity|].
  change ((if e <? k + 1 then d else 0) + before (k + 1) l = (if e <? k then d else 0) + before k l + ((if e =? k then d else 0) + debits k l)).
  rewrite IH. destruct (Z.ltb_spec e (k + 1)), (Z.ltb_spec e k), (Z.eqb_spec e k); lia.
Qed.

Lemma before_epochs : forall l k h n, (forall e, debits e l <= h) -> before (k + Z.of_nat n) l <= before k l + Z.of_nat n * h.
Proof.
  intros l k h n H. induction n as [|n IH]; [rewrite Z.add_0_r; lia|].
  replace (k + Z.of_nat (S n)) with (k + Z.of_nat n + 1) by lia. rewrite before_next. specialize (H (k + Z.of_nat n)). lia.
Qed.

Lemma before_all : forall l k k', (forall p, In p l -> fst (fst p) <= k) -> k < k' ->
  before k' l = before k l + debits k l /\ debits k' l = 0.
Proof.
  induction l as [|[[e d] x] l IH]; intros k k' H L; [split; reflexivity|].
  destruct (IH k k' (fun p P => H p (or_intror P)) L) as [I1 I2]. specialize (H _ (or_introl eq_refl)). cbn in H.
  change (before k' ((e, d, x) :: l)) with ((if e <? k' then d else 0) + before k' l).
  change (before k ((e, d, x) :: l)) with ((if e <? k then d else 0) + before k l).
  change (debits k ((e, d, x) :: l)) with ((if e =? k then d else 0) + debits k l).
  change (debits k' ((e, d, x) :: l)) with ((if e =? k' then d else 0) + debits k' l).
  destruct (Z.ltb_spec e k'), (Z.ltb_spec e k), (Z.eqb_spec e k), (Z.eqb_spec e k'); lia.
Qed.

Lemma all_of_them : forall l k, (forall p, In p l -> fst (fst p) <= k) -> sum (map (fun p => snd (fst p)) l) = before k l + debits k l.
Proof.
  induction l as [|[[e d] x] l IH]; intros k H; [reflexivity|].
  specialize (IH k (fun p P => H p (or_intror P))). specialize (H _ (or_introl eq_refl)). cbn in H.
  change (d + sum (map (fun p => snd (fst p)) l) = (if e <? k then d else 0) + before k l + ((if e =? k then d else 0) + debits k l)).
  destruct (Z.ltb_spec e k), (Z.eqb_spec e k); lia.
Qed.

(** ** What stream [s] has taken in epoch [k] since a copy was made *)

Definition tracked_from (st : state) (c : accounts) (k h s taken : Z) : Prop :=
  exists m0 j b a n,
    walk cfg (shares st s) h (class_of c s k) (first_lost c s k) (last_of (now st) s) (marks st s) = (b, a, n) /\
    (a = false -> m0 = class_of c s k) /\ 0 <= m0 <= top cfg /\ (j <= n)%nat /\
    class_of (now st) s k = Z.min (m0 + Z.of_nat j) (top cfg) /\
    taken <= pays cfg (shares st s) h b m0 j.

Lemma from_grows : forall st st' c k h s taken, tracked_from st c k h s taken -> 0 <= h ->
  shares_ok (shares st s) -> shares_ok (shares st' s) -> (forall m, shares st s m <= shares st' s m) ->
  marks st' s = marks st s -> last_of (now st) s <= last_of (now st') s ->
  (forall x, In x (marks st s) -> x <= last_of (now st) s) ->
  class_of (now st') s k = class_of (now st) s k -> tracked_from st' c k h s taken.
Proof.
  intros st st' c k h s taken (m0 & j & b & a & n & W & A & M & J & C & T) H S S' L E La R Cl.
  destruct (walk_mono cfg (shares st s) (shares st' s) h (class_of c s k) (marks st s)
    (slots_between (first_lost c s k) (last_of (now st) s)) 0 0 (mem (first_lost c s k - 1) (marks st s)) O S S' L
    ltac:(lia) H) as (b1 & b2 & d & n' & E1 & E2 & E3 & E4).
  unfold walk in W. rewrite E1 in W. injection W as -> -> ->.
  pose proof (walk_more cfg (shares st' s) h (class_of c s k) (first_lost c s k) _ _ _ _ _ _ La R E2) as W'.
  exists m0, j, b2, a, (n + length (slots_between (Z.max (first_lost c s k) (last_of (now st) s + 1)) (last_of (now st') s)))%nat.
  rewrite E. split; [exact W'|]. repeat split; auto; try lia; try (now rewrite Cl).
  pose proof (pays_mono cfg (shares st s) (shares st' s) h b b2 m0 j S S' L ltac:(lia) E4). lia.
Qed.

Lemma from_pays : forall st st' c k h s taken f, tracked_from st c k h s taken -> 0 <= h ->
  shares_ok (shares st s) -> shares_ok (shares st' s) -> (forall m, shares st s m <= shares st' s m) ->
  marks st' s = marks st s -> last_of (now st) s < last_of (now st') s -> first_lost c s k <= last_of (now st') s ->
  (forall x, In x (marks st s) -> x <= last_of (now st) s) ->
  0 <= f <= shares st' s (class_of (now st) s k) ->
  class_of (now st') s k = Z.min (payments (now st) s k + 1) (top cfg) ->
  tracked_from st' c k h s (taken + parts (h - taken) f).
Proof.
  intros st st' c k h s taken f (m0 & j & b & a & n & W & A & M & J & C & T) H S S' L E La Lc R F Cl.
  destruct (walk_mono cfg (shares st s) (shares st' s) h (class_of c s k) (marks st s)
    (slots_between (first_lost c s k) (last_of (now st) s)) 0 0 (mem (first_lost c s k - 1) (marks st s)) O S S' L
    ltac:(lia) H) as (b1 & b2 & d & n' & E1 & E2 & E3 & E4).
  unfold walk in W. rewrite E1 in W. injection W as -> -> ->.
  pose proof (walk_more cfg (shares st' s) h (class_of c s k) (first_lost c s k) _ _ _ _ _ _ (Z.lt_le_incl _ _ La) R E2) as W'.
  set (more := length (slots_between (Z.max (first_lost c s k) (last_of (now st) s + 1)) (last_of (now st') s))) in *.
  assert (0 < more)%nat.
  { unfold more, slots_between.
    assert (Le : forall n x, length (zrange x n) = n) by (induction n0; intros; cbn; auto). rewrite Le. lia. }
  exists m0, (Datatypes.S j), b2, a, (n + more)%nat. rewrite E. split; [exact W'|].
  repeat split; auto; try lia.
  - rewrite Cl. unfold Ledger.class_of in C. lia.
  - cbn [pays]. rewrite <- C.
    pose proof (pays_mono cfg (shares st s) (shares st' s) h b b2 m0 j S S' L ltac:(lia) E4).
    apply taken_mono; [lia|lia|lia|apply S'].
Qed.

(** ** The invariant of the one stream of an account with a period *)

Record ready (b : book) (s k : Z) (B : list (Z * Z)) (pa : Z) : Prop := {
  r_base : forall x, base_of cfg b x = held (now (of b));
  r_paid : forall p, In p (paid (of b)) -> fst (fst p) <= k;
  r_past : before k (paid (of b)) <= pa;
  r_ok : bounds_ok (base_of cfg b s) B;
  r_class : has (class_of (now (of b)) s k) B = true /\ debits k (paid (of b)) <= get 0 (class_of (now (of b)) s k) B;
  r_copies : forall n c bt, nth_error (copies (of b)) n = Some (c, bt) -> has s (slots c) = true ->
    account_ok (epoch_now c s) c /\ epoch_now c s <= k /\
    before (epoch_now c s) (paid (of b)) <= paid_by (nth n (past_then b) []) s /\
    bounds_ok (base_of cfg b s) (said (nth n (most_then b) []) s) /\
    exists X, 0 <= X /\ has (class_of c s (epoch_now c s)) (said (nth n (most_then b) []) s) = true /\
      X <= get 0 (class_of c s (epoch_now c s)) (said (nth n (most_then b) []) s) /\
      let x := if epoch_now c s =? k then X else 0 in
      tracked_from (of b) c k (base_of cfg b s - x) s (debits k (paid (of b)) - x)
}.
Definition steady (b : book) (s : Z) : Prop :=
  ready b s (epoch_now (now (of b)) s) (said (most b) s) (paid_by (past b) s).

Lemma nodup_one_ : forall (l : list Z) s, NoDup l -> (forall y, In y l -> y = s) -> l = [] \/ l = [s].
Proof.
  intros [|x [|y l]] s N H; [now left|right; now rewrite (H x (or_introl eq_refl))|]. exfalso. inversion N as [|? ? N1 _]; subst. apply N1.
  rewrite (H x (or_introl eq_refl)), (H y (or_intror (or_introl eq_refl))). now left.
Qed.

Lemma reached_now : forall b s, streams (now (of b)) = [s] -> reached cfg (of b) (epoch_now (now (of b)) s).
Proof.
  intros b s E. split; [|intros; lia]. intros x X. rewrite E in X. destruct X as [<-|[]]. apply Z.le_refl.
Qed.

Lemma largest_ge : forall l m, has m l = true -> get 0 m l <= largest_of l.
Proof.
  intros l m H. destruct (fold_max_ge (map snd l) 0) as [_ F]. apply F. apply get_in in H. apply (in_map snd) in H. exact H.
Qed.

Lemma largest_nonneg : forall l, 0 <= largest_of l.
Proof. intros l. apply (proj1 (fold_max_ge (map snd l) 0)). Qed.

(** A slot begins: in the same epoch, or in a later one, where accounts are full again. *)
Lemma slot_begins : forall b s t, invariant (of b) -> steady b s -> streams (now (of b)) = [s] -> last_of (now (of b)) s < t ->
  ready b s (epoch_of cfg t) (entered cfg b s t) (paid_by (past_at cfg b s t) s).
Proof.
  intros b s t I R One T. pose proof (epoch_mono cfg period_range _ _ (Z.lt_le_incl _ _ T)) as Le.
  unfold entered, past_at. destruct (Z.eqb_spec (epoch_of cfg t) (epoch_now (now (of b)) s)) as [E|N]; [rewrite E; exact R|].
  set (k := epoch_now (now (of b)) s) in *. assert (Lt : k < epoch_of cfg t) by (unfold k, Bounds.epoch_now in *; lia).
  destruct R as [Rb Rp Ra Ro [Rc Rx] Rk]. destruct (i_now cfg _ I k (reached_now b s One)) as [A _].
  destruct (before_all _ _ _ Rp Lt) as [Be De].
  assert (Cl : class_of (now (of b)) s (epoch_of cfg t) = 0) by (apply (fresh_class cfg epsilon_range top_range _ s k); assumption).
  pose proof (i_held cfg _ I) as Hh.
  constructor.
  - exact Rb.
  - intros p P. specialize (Rp p P). lia.
  - rewrite Be. unfold paid_by at 1. rewrite get_set, Z.eqb_refl. pose proof (largest_ge _ _ Rc). unfold k in *. lia.
  - apply newcomers_ok. rewrite Rb. unfold Ledger.held in *. lia.
  - rewrite Cl, De. cbn. split; [reflexivity|lia].
  - intros n c bt Nth H. destruct (Rk n c bt Nth H) as (K1 & K2 & K3 & K4 & X & X1 & X2 & X3 & _).
    split; [exact K1|]. split; [lia|]. split; [exact K3|]. split; [exact K4|]. exists X. split; [exact X1|]. split; [exact X2|]. split; [exact X3|].
    destruct (Z.eqb_spec (epoch_now c s) (epoch_of cfg t)); [lia|]. cbv zeta. rewrite De.
    assert (Cc : class_of c s (epoch_of cfg t) = 0) by (apply (fresh_class cfg epsilon_range top_range _ s (epoch_now c s)); [assumption|lia]).
    destruct (walk_range cfg (shares (of b) s) (base_of cfg b s - 0) (class_of c s (epoch_of cfg t)) (first_lost c s (epoch_of cfg t))
      (last_of (now (of b)) s) (marks (of b) s) (i_shares cfg _ I s)) as (bb & a & q0 & W & Rr); [rewrite Rb; unfold Ledger.held in *; lia|].
    exists 0, O, bb, a, q0. split; [exact W|]. rewrite Cc, Cl. cbn [pays Z.of_nat]. repeat split; lia.
Qed.

(** And is paid. *)
Lemma class_pays_steady : forall b s t groups whole here b' out B pa, invariant (of b) -> ready b s (epoch_of cfg t) B pa ->
  B = entered cfg b s t -> pa = paid_by (past_at cfg b s t) s ->
  book_step cfg b (PayClass s t groups whole here) = Some (b', out) -> streams (now (of b')) = [s] /\ steady b' s.
Proof.
  intros b s t groups whole here b' out B pa I R EB Epa E. unfold book_step in E. cbn [allowed negb] in E.
  destruct (step cfg (of b) (PayClass s t groups whole here)) as [[st' [g d]]|] eqn:Q; [|discriminate]. injection E as <- _.
  pose proof GRAINS_pos as Gp. cbn [step] in Q. set (k := epoch_of cfg t) in *.
  destruct (in_turn cfg (now (of b)) s t && by_class cfg s && well_asked cfg groups) eqn:G; [|discriminate].
  rewrite !andb_true_iff in G. destruct G as [[T C] Wa].
  pose proof (turn_reached cfg period_range (of b) s t T) as Re. fold k in Re.
  destruct (in_turn_spec cfg _ _ _ T) as [T1 T2]. specialize (T2 ltac:(lia)).
  destruct (weights_by_class cfg (now (of b)) s k groups) as [price gr0] eqn:W.
  set (m := class_of (now (of b)) s k) in *. set (f := snd (due m groups)).
  destruct (due_spec cfg groups m Wa) as [P0 Du]. fold f in Du.
  assert (Price : price = fst (due m groups))
    by (unfold weights_by_class in W; fold m in W; destruct (due m groups); now injection W).
  assert (Pr0 : 0 <= price) by lia.
  assert (Steps : forall c, In c (concat (map snd groups)) -> 0 < snd c <= SHARE_STEPS) by (intros c Ic; apply (well_asked_steps cfg groups c Wa Ic)).
  assert (F : 0 <= f <= SHARE_STEPS) by (pose proof STEPS_pos; destruct Du as [->|Du]; [lia|specialize (Steps _ Du); cbn in Steps; lia]).
  pose proof (left_nonneg cfg (now (of b)) k) as Ln.
  pose proof (class_pays cfg (now (of b)) s k groups _ _ W ltac:(lia) F) as Cp. fold m f in Cp.
  pose proof (parts_le _ f Ln F) as Pf.
  set (gr := if here then weight (whole_or_none whole gr0) else 0) in *.
  destruct (weight_le whole here gr0 (parts (left_at (now (of b)) k) f * GRAINS) price ltac:(lia) ltac:(nia) ltac:(auto)) as [W1 W2].
  fold gr in W1, W2. pose proof (debit_le price gr _ W2) as Dl. pose proof (debit_nonneg price gr Pr0 (proj1 W1)) as D.
  destruct (i_now cfg _ I k Re) as [A Left].
  unfold settle in Q. destruct (pay cfg (now (of b)) s t price gr) as [[a cost]|] eqn:Pq; [|discriminate]. injection Q as <- <- <-. fold k.
  destruct (pay_spec cfg (now (of b)) s t price gr a cost k Pq eq_refl A Pr0 (proj1 W1) ltac:(lia)) as (Es & El & Ea & Aok & _ & _ & Cl & Cn).
  specialize (Cn C). set (dd := debit price gr) in *.
  fold dd. match goal with |- _ /\ steady ?x s => set (b' := x) end.
  assert (Str : streams (now (of b')) = [s]).
  { cbn [of now b']. unfold streams. rewrite Es, keys_set. destruct (has s (slots (now (of b)))) eqn:H.
    - destruct (nodup_one_ (streams (now (of b))) s (i_streams cfg _ I) T2) as [Z1|Z1]; [|exact Z1].
      apply in_streams in H. unfold streams in *. rewrite Z1 in H. destruct H.
    - assert (Z1 : streams (now (of b)) = []).
      { destruct (streams (now (of b))) as [|y l] eqn:Y; [reflexivity|]. rewrite (T2 y ltac:(now left)) in Y.
        assert (Hs : In s (streams (now (of b)))) by (rewrite Y; now left). apply in_streams in Hs. congruence. }
      unfold streams in Z1. rewrite Z1. reflexivity. }
  split; [exact Str|].
  assert (Last : forall y, last_of a y = if s =? y then t else last_of (now (of b)) y) by (intros; unfold last_of; rewrite Es; apply get_set).
  assert (Kn : epoch_now a s = k) by (unfold Bounds.epoch_now; rewrite Last, Z.eqb_refl; reflexivity).
  destruct R as [Rb Rp Ra Ro [Rc Rx] Rk]. fold m in Rc, Rx.
  assert (Eh : held a = held (now (of b))) by (unfold Ledger.held; now rewrite Ea).
  assert (Ebase : forall x, base_of cfg b' x = base_of cfg b x).
  { intros x. unfold base_of at 1. cbn [of now base b']. unfold based. rewrite Eh, get_set. destruct (Z.eqb_spec s x); [now subst|reflexivity]. }
  destruct (draw_grows cfg (base_of cfg b s) B groups Ro) as (D1 & D2 & D3 & D4).
  { intros c Ic. specialize (Steps c Ic). lia. }
  assert (Df : dd <= parts (base_of cfg b s - debits k (paid (of b))) f).
  { etransitivity; [exact Dl|]. apply parts_mono; [|lia]. rewrite Rb. unfold Ledger.held in *. lia. }
  unfold steady. cbn [of now most past b']. rewrite Kn, said_set, Z.eqb_refl.
  replace (paid_by (past_at cfg b s t) s) with pa by (symmetry; exact Epa). rewrite <- EB.
  assert (Deb : debits k ((k, dd, price * gr) :: paid (of b)) = dd + debits k (paid (of b))).
  { change (debits k ((k, dd, price * gr) :: paid (of b))) with ((if k =? k then dd else 0) + debits k (paid (of b))). now rewrite Z.eqb_refl. }
  assert (Bef : forall e, e <= k -> before e ((k, dd, price * gr) :: paid (of b)) = before e (paid (of b))).
  { intros e Ee. change (before e ((k, dd, price * gr) :: paid (of b))) with ((if k <? e then dd else 0) + before e (paid (of b))).
    destruct (Z.ltb_spec k e); lia. }
  assert (Share : f <= get 0 m (asks groups (get [] s (largest (seen (of b))))) /\ forall j, 0 <= get 0 j (asks groups (get [] s (largest (seen (of b))))) <= SHARE_STEPS).
  { assert (Rg : forall j, 0 <= get 0 j (asks groups (get [] s (largest (seen (of b))))) <= SHARE_STEPS).
    { apply asks_range; [intros y Y; specialize (Steps y Y); lia|]. apply (i_shares _ _ I). }
    split; [|exact Rg]. destruct Du as [->|Du]; [apply Rg|].
    apply (proj2 (asks_ge _ m (fun y Y => Z.lt_le_incl _ _ (proj1 (Steps y Y))) _)), Du. }
  constructor; fold b'; cbn [of now paid copies seen most_then past_then b'].
  - intros x. rewrite Ebase. unfold Ledger.held. rewrite Ea. apply Rb.
  - intros p [<-|P]; [cbn; lia|now apply Rp].
  - rewrite Bef by lia. exact Ra.
  - rewrite Ebase. exact D1.
  - rewrite Deb. destruct (Z.eq_dec dd 0) as [Dz|Dz].
    + rewrite Cl by auto. fold m. split; [now apply D3|]. specialize (D2 m). lia.
    + assert (Dp : 0 < dd) by lia. destruct Du as [Fz|Du].
      { rewrite Fz in Df. unfold parts in Df. rewrite Z.mul_0_r, Z.div_0_l in Df by (pose proof STEPS_pos; lia). lia. }
      destruct (D4 m f Du Rc) as [D5 D6].
      assert (En : class_of a s k = next cfg m) by (rewrite (Cn Dp); unfold next, m, Ledger.class_of; lia).
      rewrite En. split; [exact D5|]. pose proof (rest_mono (base_of cfg b s - get 0 m B) (base_of cfg b s - debits k (paid (of b))) f ltac:(lia) F). lia.
  - intros n c bt Nth H. destruct (Rk n c bt Nth H) as (K1 & K2 & K3 & K4 & X & X1 & X2 & X3 & X4).
    rewrite Ebase. split; [exact K1|]. split; [exact K2|]. split; [rewrite Bef by lia; exact K3|]. split; [exact K4|].
    exists X. split; [exact X1|]. split; [exact X2|]. split; [exact X3|]. cbv zeta in *. set (x := if epoch_now c s =? k then X else 0) in *.
    rewrite Deb. pose proof (nth_error_In _ _ Nth) as Inn.
    destruct (i_copies cfg _ I _ Inn) as (_ & _ & _ & C4 & _ & _ & C6).
    assert (Is : In s (streams (now (of b)))) by (apply C4, H). specialize (T1 Is).
    destruct (C6 ltac:(intros y Y; rewrite (T2 y Y); exact H)) as (C7 & _). specialize (C7 s Is).
    assert (Xr : 0 <= x <= base_of cfg b s).
    { unfold x. destruct (epoch_now c s =? k); [|rewrite Rb; pose proof (i_held cfg _ I); unfold Ledger.held in *; lia].
      destruct K4 as (_ & K4 & _). specialize (K4 (class_of c s (epoch_now c s))). lia. }
    assert (Fi : first_lost c s k <= t).
    { unfold Ledger.first_lost. destruct (Z.eqb_spec (period cfg) 0); [lia|]. pose proof (Z.mul_div_le t (period cfg) ltac:(lia)).
      unfold k, Ledger.epoch_of. lia. }
    assert (Sh' : shares_ok (shares (of b') s)) by (intros j; unfold shares, share_of; cbn [of seen largest b']; rewrite get_set, Z.eqb_refl; apply Share).
    assert (Sle : forall j, shares (of b) s j <= shares (of b') s j).
    { intros j. unfold shares, share_of. cbn [of seen largest b']. rewrite get_set, Z.eqb_refl.
      apply (proj1 (asks_ge _ j (fun y Y => Z.lt_le_incl _ _ (proj1 (Steps y Y))) _)). }
    assert (Mk : forall z, In z (marks (of b) s) -> z <= last_of (now (of b)) s) by (intros z Zi; apply (i_marks cfg _ I s z Zi)).
    assert (La : last_of (now (of b')) s = t) by (cbn [of now b']; rewrite Last, Z.eqb_refl; reflexivity).
    destruct (Z.eq_dec dd 0) as [Dz|Dz].
    + replace (dd + debits k (paid (of b)) - x) with (debits k (paid (of b)) - x) by lia.
      apply (from_grows (of b) (of b')); auto; try apply (i_shares cfg _ I); try lia.
    + set (h := base_of cfg b s - x) in *. set (taken := debits k (paid (of b)) - x) in *.
      assert (Wt : tracked_from (of b') c k h s (taken + parts (h - taken) f)).
      { apply (from_pays (of b) (of b')); auto; try apply (i_shares cfg _ I); try lia.
        - fold m. unfold shares, share_of. cbn [of seen largest b']. rewrite get_set, Z.eqb_refl. destruct Share. lia.
        - apply Cn. lia. }
      destruct Wt as (m0 & j & bb & an & nn & Y1 & Y2 & Y3 & Y4 & Y5 & Y6). exists m0, j, bb, an, nn. repeat split; auto; try lia.
      replace (h - taken) with (base_of cfg b s - debits k (paid (of b))) in Y6 by (unfold h, taken; lia). unfold taken in Y6.
      assert (Fin : dd + debits k (paid (of b)) - x <= pays cfg (shares (of b') s) h bb m0 j) by lia. exact Fin.
Qed.

Lemma copy_steady : forall b b' out s, invariant (of b) -> steady b s -> streams (now (of b)) = [s] ->
  book_step cfg b Copy = Some (b', out) -> steady b' s.
Proof.
  intros b b' out s I [Rb Rp Ra Ro [Rc Rx] Rk] One E. unfold book_step in E. cbn in E. injection E as <- _.
  destruct (i_now cfg _ I _ (reached_now b s One)) as [A _]. pose proof (class_range cfg top_range _ s _ (epoch_now (now (of b)) s) A) as Cr.
  constructor; cbn [of now paid copies most past most_then past_then]; auto.
  intros [|n] c bt Nth H; cbn [nth_error nth] in *; [|exact (Rk n c bt Nth H)]. injection Nth as <- <-.
  change (base_of cfg _ s) with (base_of cfg b s).
  split; [exact A|]. split; [apply Z.le_refl|]. split; [exact Ra|]. split; [exact Ro|].
  exists (debits (epoch_now (now (of b)) s) (paid (of b))).
  split; [apply debits_nonneg; intros p P; apply (i_paid cfg _ I p P)|]. split; [exact Rc|]. split; [exact Rx|].
  cbv zeta. rewrite Z.eqb_refl. destruct Ro as (_ & Ro & _). specialize (Ro (class_of (now (of b)) s (epoch_now (now (of b)) s))).
  destruct (walk_range cfg (shares (of b) s) (base_of cfg b s - debits (epoch_now (now (of b)) s) (paid (of b)))
    (class_of (now (of b)) s (epoch_now (now (of b)) s)) (first_lost (now (of b)) s (epoch_now (now (of b)) s))
    (last_of (now (of b)) s) (marks (of b) s) (i_shares cfg _ I s) ltac:(lia)) as (bb & an & q0 & W & Rr).
  exists (class_of (now (of b)) s (epoch_now (now (of b)) s)), O, bb, an, q0. split; [exact W|]. cbn [now pays Z.of_nat]. repeat split; lia.
Qed.

Lemma restore_steady : forall b number b' out s, invariant (of b) -> steady b s -> streams (now (of b)) = [s] ->
  book_step cfg b (Restore number) = Some (b', out) -> streams (now (of b')) = [s] /\ steady b' s.
Proof.
  intros b number b' out s I R One E. unfold book_step in E. cbn [allowed negb] in E.
  destruct (step cfg (of b) (Restore number)) as [[st' [g d]]|] eqn:Q; [|discriminate]. injection E as <- _. cbn [step] in Q.
  destruct (nth_error (copies (of b)) number) as [[c bt]|] eqn:Nth; [|discriminate].
  destruct (_ && _) eqn:G in Q; [|discriminate]. apply andb_true_iff in G as [G1 G2].
  assert (N : slots (now (of b)) <> []) by (destruct (slots (now (of b))); [discriminate|congruence]).
  assert (Cov : forall x, In x (streams (now (of b))) -> has x (slots c) = true) by (now rewrite forallb_forall in G1).
  assert (Is : In s (streams (now (of b)))) by (rewrite One; now left).
  pose proof (nth_error_In _ _ Nth) as Inn.
  destruct (i_copies cfg _ I _ Inn) as (C1 & C2 & C3 & C4 & Cs & C5 & C6). destruct (C6 Cov) as (C7 & C8 & _). specialize (C7 s Is).
  rewrite (nth_error_nth _ _ (now (of b), []) Nth). cbn [fst].
  set (k := epoch_now (now (of b)) s) in *.
  pose proof (reached_now b s One) as Re. fold k in Re.
  destruct (newest_reached cfg period_range _ I N) as [Rn Rle].
  assert (Kn : epoch_of cfg (newest (slots (now (of b)))) = k).
  { apply Z.le_antisymm; [apply Rle, Re|]. apply (proj1 Rn s Is). }
  destruct (charge_lost_covers cfg epsilon_range period_range (of b) c bt k I Inn N Cov (eq_sym Kn)) as (_ & Ok & _ & _ & Ea & Es & Eo).
  set (a := charge_lost cfg (of b) (c, bt)) in *. injection Q as <- _ _.
  match goal with |- _ /\ steady ?x s => set (b' := x) end.
  assert (Str : streams a = [s]) by (unfold streams; rewrite Es; exact One).
  split; [exact Str|].
  destruct R as [Rb Rp Ra Ro [Rc Rx] Rk]. fold k in Rp, Ra, Rc, Rx, Rk.
  destruct (Rk number c bt Nth (Cov s Is)) as (K1 & K2 & K3 & K4 & X & X1 & X2 & X3 & X4). cbv zeta in X4.
  set (kc := epoch_now c s) in *. set (Mc := nth number (most_then b) []) in *. set (Pc := nth number (past_then b) []) in *.
  assert (Eb : forall x, base_of cfg b' x = base_of cfg b x) by (intros; unfold base_of, b'; cbn [of now base]; unfold Ledger.held; now rewrite Ea).
  assert (Cl : forall j, class_of a s j = class_of c s j) by (intros; unfold Ledger.class_of, payments; now rewrite Eo).
  assert (La : last_of a s = last_of (now (of b)) s) by (unfold last_of; now rewrite Es).
  assert (Ka : epoch_now a s = k) by (unfold Bounds.epoch_now; rewrite La; reflexivity).
  pose proof (i_held cfg _ I) as Hh. set (e := base_of cfg b s) in *.
  assert (He : e = held (now (of b))) by apply Rb.
  set (S0 := if kc =? k then said Mc s else newcomers). set (x := if kc =? k then X else 0) in *. set (m := class_of c s k).
  assert (Start : bounds_ok e S0 /\ has m S0 = true /\ 0 <= x <= get 0 m S0).
  { unfold S0, x, m. destruct (Z.eqb_spec kc k) as [Ek|Nk]; [rewrite <- Ek; auto|].
    rewrite (fresh_class cfg epsilon_range top_range c s kc k K1 ltac:(lia)). cbn. split; [apply newcomers_ok; lia|]. split; [reflexivity|lia]. }
  destruct Start as (S1 & S2 & S3).
  assert (So : shares_ok (share_of (seen (of b)) s)) by apply (i_shares cfg _ I s).
  destruct (after_lost_ok cfg (share_of (seen (of b)) s) e (first_lost c s k) (last_of (now (of b)) s)
    (get [] s (restored (seen (of b)))) S0 So S1) as (L1 & L2 & L3). specialize (L3 m S2).
  set (B := after_lost cfg (share_of (seen (of b)) s) e (first_lost c s k) (last_of (now (of b)) s) (get [] s (restored (seen (of b)))) S0) in *.
  assert (Said : said (most b') s = B).
  { unfold said, b'. cbn [most]. rewrite get_keys, One. unfold mem. cbn [existsb]. rewrite Z.eqb_refl. reflexivity. }
  assert (Past : paid_by (past b') s = lost_past cfg b c Pc s).
  { unfold paid_by, b'. cbn [past]. rewrite get_keys, One. unfold mem. cbn [existsb]. rewrite Z.eqb_refl. reflexivity. }
  unfold steady. rewrite Said, Past. cbn [of now b']. rewrite Ka.
  assert (Fi : forall c2, last_of c2 s <= last_of (now (of b)) s -> first_lost c2 s k <= last_of (now (of b)) s + 1).
  { intros c2 L. unfold Ledger.first_lost. destruct (Z.eqb_spec (period cfg) 0); [lia|].
    pose proof (Z.mul_div_le (last_of (now (of b)) s) (period cfg) ltac:(lia)). unfold k, Bounds.epoch_now, Ledger.epoch_of. lia. }
  constructor; fold b'; cbn [of now paid copies seen most_then past_then b'].
  - intros y. rewrite Eb. unfold Ledger.held. rewrite Ea. apply Rb.
  - exact Rp.
  - unfold lost_past. fold kc k. destruct (Z.eqb_spec kc k) as [Ek|Nk]; [rewrite <- Ek; lia|]. change (base_of cfg b s) with e.
    pose proof (before_epochs (paid (of b)) kc e (Z.to_nat (k - kc)) ltac:(intros y; rewrite He; apply (i_epoch cfg _ I))) as Be.
    replace (kc + Z.of_nat (Z.to_nat (k - kc))) with k in Be by lia. lia.
  - rewrite Eb. exact L1.
  - rewrite Cl. fold m. split; [now apply L2|].
    destruct X4 as (m0 & j & bb & an & n & W & A & M & J & _ & T). fold m in W, A.
    destruct S1 as (_ & Sr & _). specialize (Sr m).
    pose proof (most_taken_covers cfg (shares (of b) s) (e - x) m (first_lost c s k) (last_of (now (of b)) s) (marks (of b) s)
      bb an n m0 j (i_shares cfg _ I s) ltac:(lia) W A M J) as Mt.
    destruct (raised_ok (share_of (seen (of b)) s) So) as [S' _].
    destruct (taken_ahead cfg (fun q => raised (share_of (seen (of b)) s q)) (e - get 0 m S0) (e - x) m (first_lost c s k)
      (last_of (now (of b)) s) (marks (of b) s) S' ltac:(lia)) as [[_ Ah] _].
    unfold marks, shares in *. lia.
  - intros n c2 bt2 Nth2 H2. destruct (Rk n c2 bt2 Nth2 H2) as (Y1 & Y2 & Y3 & Y4 & Z0 & Z1 & Z2 & Z3 & Z4). rewrite Eb. fold e.
    split; [exact Y1|]. split; [exact Y2|]. split; [exact Y3|]. split; [exact Y4|]. exists Z0. split; [exact Z1|]. split; [exact Z2|]. split; [exact Z3|].
    cbv zeta in *. set (x2 := if epoch_now c2 s =? k then Z0 else 0) in *.
    assert (Hp : 0 <= e - x2).
    { unfold x2. destruct (epoch_now c2 s =? k); [|lia]. destruct Y4 as (_ & Y4 & _). specialize (Y4 (class_of c2 s (epoch_now c2 s))). fold e in Y4. lia. }
    destruct (i_copies cfg _ I _ (nth_error_In _ _ Nth2)) as (_ & _ & _ & _ & _ & _ & D6).
    destruct (D6 ltac:(intros y Y; rewrite One in Y; destruct Y as [<-|[]]; exact H2)) as (D7 & _). specialize (D7 s Is).
    destruct Z4 as (m0 & j & bb & an & n0 & W & A & M & J & _ & T).
    destruct (restore_any_class cfg (shares (of b) s) (e - x2) (class_of c2 s k) (first_lost c2 s k) (last_of (now (of b)) s)
      (marks (of b) s) bb an n0 (i_shares cfg _ I s) Hp (Fi c2 D7) W) as (b1 & W' & B').
    destruct (walk_range cfg (shares (of b) s) (e - x2) (class_of c2 s k) (first_lost c2 s k) (last_of (now (of b)) s)
      (marks (of b) s) (i_shares cfg _ I s) Hp) as (b0 & a0 & n1 & W0 & R0). rewrite W in W0. injection W0 as <- <- <-.
    pose proof (finish_covers cfg (shares (of b) s) (e - x2) (class_of c2 s k) bb an n0 m0 j (i_shares cfg _ I s) ltac:(lia) A M J).
    unfold tracked_from. cbn [now b' of]. unfold marks. cbn [seen restored].
    rewrite (marks_after (last_of (now (of b)))) by apply (i_streams cfg _ I).
    assert (Ms : mem s (streams (now (of b))) = true) by (now apply mem_in). rewrite Ms, La.
    exists (class_of a s k), O, b1, true, O. split; [exact W'|].
    pose proof (class_range cfg top_range a s k k Ok). cbn [pays Z.of_nat]. repeat split; try lia; try discriminate.
Qed.

(** Before the first slot. *)
Record unused (b : book) : Prop := {
  u_streams : streams (now (of b)) = [];
  u_own : own (now (of b)) = [];
  u_paid : paid (of b) = [];
  u_base : base b = [];
  u_most : most b = [];
  u_past : past b = []
}.

Theorem epochs_hold : forall b, book_trace cfg b ->
  unused b \/ exists s, streams (now (of b)) = [s] /\ (by_class cfg s = true -> steady b s).
Proof.
  induction 1 as [n N|b x b' out T IH E]; [left; constructor; reflexivity|].
  assert (I : invariant (of b)).
  { apply (trace_invariant cfg epsilon_range top_range period_range). apply (bounds_hold cfg epsilon_range top_range period_range b T). }
  assert (E0 := E). destruct x as [s t e num den whole here|s t groups whole here|t units|units bound| |n].
  - right. unfold book_step in E. cbn [allowed negb] in E.
    destruct (step cfg (of b) (PayPolicy s t e num den whole here)) as [[st' [g d]]|] eqn:Q; [|discriminate]. injection E as <- _.
    cbn [step] in Q. destruct (_ && _) eqn:G in Q; [|discriminate]. rewrite !andb_true_iff in G. destruct G as [[[[[Tn C] E1] _] _] _].
    apply negb_true_iff in C. apply Z.leb_le in E1. destruct (in_turn_spec cfg _ _ _ Tn) as [_ T2]. specialize (T2 ltac:(lia)).
    exists s. split; [|congruence]. cbn [of].
    assert (Es : slots (now st') = set s t (slots (now (of b)))).
    { unfold settle, pay in Q. destruct (_ <=? 0) in Q; [|destruct (_ <? _) in Q; [discriminate|]]; injection Q as <- _ _; reflexivity. }
    unfold streams. rewrite Es, keys_set. destruct (has s (slots (now (of b)))) eqn:H.
    + destruct (nodup_one_ (streams (now (of b))) s (i_streams cfg _ I) T2) as [Z1|Z1]; [|exact Z1].
      apply in_streams in H. rewrite Z1 in H. destruct H.
    + assert (Z1 : map fst (slots (now (of b))) = []).
      { destruct (nodup_one_ (streams (now (of b))) s (i_streams cfg _ I) T2) as [Z1|Z1]; [exact Z1|].
        assert (Hs : In s (streams (now (of b)))) by (rewrite Z1; now left). apply in_streams in Hs. congruence. }
      rewrite Z1. reflexivity.
  - right. assert (G : in_turn cfg (now (of b)) s t = true /\ by_class cfg s = true).
    { unfold book_step in E. cbn [allowed negb step] in E. destruct (in_turn cfg (now (of b)) s t), (by_class cfg s); cbn in E; try discriminate. auto. }
    destruct G as [Tn C]. destruct (in_turn_spec cfg _ _ _ Tn) as [T1 T2]. specialize (T2 ltac:(lia)).
    assert (R : ready b s (epoch_of cfg t) (entered cfg b s t) (paid_by (past_at cfg b s t) s)).
    { destruct IH as [U|(s0 & One & St)].
      - destruct U as [U1 U2 U3 U4 U5 U6].
        assert (En : entered cfg b s t = newcomers) by (unfold entered, said; rewrite U5; destruct (_ =? _); reflexivity).
        assert (Pa : paid_by (past_at cfg b s t) s = 0).
        { unfold past_at, paid_by, said. rewrite U5, U6. destruct (_ =? _); [reflexivity|]. cbn. now rewrite Z.eqb_refl. }
        rewrite En, Pa. pose proof (i_held cfg _ I) as Hh.
        assert (Ba : forall y, base_of cfg b y = held (now (of b))) by (intros; unfold base_of; rewrite U4; reflexivity).
        constructor; rewrite ?U3.
        + exact Ba.
        + intros p [].
        + cbn. lia.
        + apply newcomers_ok. rewrite Ba. lia.
        + assert (Cz : class_of (now (of b)) s (epoch_of cfg t) = 0).
          { unfold Ledger.class_of, payments. rewrite U2. cbn [get]. unfold view, zero. cbn. destruct (0 <? epoch_of cfg t); cbn; lia. }
          rewrite Cz. cbn. split; [reflexivity|lia].
        + intros n c bt Nth H. destruct (i_copies cfg _ I _ (nth_error_In _ _ Nth)) as (_ & _ & _ & C4 & _). apply C4 in H. rewrite U1 in H. destruct H.
      - assert (s0 = s) by (apply T2; rewrite One; now left). subst s0. apply slot_begins; auto. apply T1. rewrite One. now left. }
    exists s. destruct (class_pays_steady b s t groups whole here b' out _ _ I R eq_refl eq_refl E0) as [A B]. auto.
  - discriminate E.
  - exfalso. unfold book_step in E. destruct (negb _); [discriminate|]. cbn [step] in E. destruct (Z.eqb_spec (period cfg) 0); [lia|].
    rewrite andb_false_r in E. cbn in E. discriminate.
  - destruct IH as [U|(s & One & St)].
    + left. unfold book_step in E. cbn in E. injection E as <- _. destruct U. constructor; assumption.
    + right. exists s. split; [|intros C; eapply copy_steady; eauto].
      unfold book_step in E. cbn in E. injection E as <- _. exact One.
  - destruct IH as [U|(s & One & St)].
    + exfalso. destruct U as [U1 _ _ _ _ _]. unfold book_step in E. cbn [allowed negb step] in E.
      destruct (nth_error (copies (of b)) n) as [[c bt]|]; [|discriminate]. unfold streams in U1.
      destruct (slots (now (of b))); [|discriminate]. cbn in E. rewrite andb_false_r in E. discriminate.
    + right. exists s. destruct (by_class cfg s) eqn:C.
      * destruct (restore_steady b n b' out s I (St eq_refl) One E0) as [A B]. auto.
      * split; [|congruence]. unfold book_step in E. cbn [allowed negb step] in E.
        destruct (nth_error (copies (of b)) n) as [[c bt]|]; [|discriminate]. destruct (_ && _) in E; [|discriminate].
        assert (Es : slots (charge_lost cfg (of b) (c, bt)) = slots (now (of b))) by (unfold charge_lost; destruct (existsb _ _); reflexivity).
        set (a := charge_lost cfg (of b) (c, bt)) in *. clearbody a. injection E as <- _. cbn [of now]. unfold streams. rewrite Es. exact One.
Qed.

(** What is stated of a stream by class with refills, and what u has paid in all epochs. *)
Definition stated_with_past (b : book) (s : Z) : Z := paid_by (past b) s + largest_of (said (most b) s).

Theorem stated_with_past_covers : forall b s, book_trace cfg b -> streams (now (of b)) = [s] -> by_class cfg s = true ->
  sum (map (fun p => snd (fst p)) (paid (of b))) <= stated_with_past b s.
Proof.
  intros b s T One C. destruct (epochs_hold b T) as [U|(s0 & One0 & St)]; [destruct U; congruence|].
  assert (s0 = s) by congruence. subst s0. destruct (St C) as [Rb Rp Ra Ro [Rc Rx] Rk]. rewrite (all_of_them _ _ Rp).
  pose proof (largest_ge _ _ Rc). unfold stated_with_past. lia.
Qed.

End Epochs.
