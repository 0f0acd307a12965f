(** The promise: adaptive composition over transcripts of any length, with the ledger's weights.

    A stream S has the events of user u, and S′ = S - u has not. A transcript is what was released so far, the newest slot
    first. Whatever is public, and whatever the other users do, is a function of the transcript. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
Require Import Ledger Lost Invariant Payments Trace Laplace.
Import ListNotations.
Open Scope R_scope.

Definition UNITS : Z := (2 ^ 40)%Z.
Definition output := list (list Z).               (* one slot: the noisy grains of every group's bins *)

(** Noise of scale 2^24/E: E is in units of 2^-40, a histogram in grains. *)
Definition rate (price : Z) : R := IZR price / (IZR UNITS * IZR GRAINS).

Fixpoint add (h c : list Z) : list Z :=
  match h, c with x :: h', y :: c' => (x + y)%Z :: add h' c' | _, _ => h end.
Fixpoint add_at (g : nat) (hs : list (list Z)) (c : list Z) : list (list Z) :=
  match hs, g with
  | [], _ => []
  | h :: hs', O => add h c :: hs'
  | h :: hs', S g' => h :: add_at g' hs' c
  end.

Lemma denominator_pos : 0 < IZR UNITS * IZR GRAINS.
Proof. apply Rmult_lt_0_compat; apply IZR_lt; [reflexivity|exact GRAINS_pos]. Qed.

Lemma rate_pos : forall price, (0 < price)%Z -> 0 < rate price.
Proof. intros. apply Rdiv_lt_0_compat; [now apply IZR_lt|apply denominator_pos]. Qed.

Lemma add_length : forall h c, length (add h c) = length h.
Proof. induction h; destruct c; cbn; auto. Qed.

Lemma add_distance : forall h c, (forall x, In x c -> (0 <= x)%Z) ->
  (distance (add h c) h <= sum c)%Z /\ (distance h (add h c) <= sum c)%Z.
Proof.
  induction h as [|x h IH]; intros c P.
  - cbn. split; apply sum_nonneg; assumption.
  - destruct c as [|y c].
    + cbn. clear. assert (E : forall l, distance l l = 0%Z) by (induction l as [|a l IH]; cbn; [reflexivity|rewrite IH; lia]).
      rewrite !E. lia.
    + cbn [add distance]. change (sum (y :: c)) with (y + sum c)%Z. destruct (IH c (fun z Z => P z (or_intror Z))).
      pose proof (P y (or_introl eq_refl)). lia.
Qed.

Lemma add_at_length : forall g hs c, length (add_at g hs c) = length hs.
Proof. induction g; intros [|h hs] c; cbn; auto. Qed.

Lemma add_at_other : forall g hs c i, i <> g -> nth i (add_at g hs c) [] = nth i hs [].
Proof.
  induction g as [|g IH]; intros [|h hs] c [|i] N; cbn; auto; try contradiction; try (apply IH; congruence).
Qed.

Lemma add_at_here : forall g hs c, nth g (add_at g hs c) [] = add (nth g hs []) c.
Proof.
  induction g as [|g IH]; intros [|h hs] c; cbn; auto.
Qed.

(** ** Composition *)

Section Composition.

Variable account : Type.
Variable first : account.                                       (* u's account at first *)
Variable spend : account -> list output -> account * (nat * Z * list Z).
  (* what a slot makes of it: u's group, weight in grains, and what u adds to that group's bins *)
Variable prices : list output -> list Z.                        (* public: the price of every group of the slot *)
Variable others : list output -> list (list Z).                 (* the other users' histograms of the groups *)

Hypothesis prices_pos : forall past p, In p (prices past) -> (0 < p)%Z.
Hypothesis adds_at_most_its_weight : forall a past a' g w c, spend a past = (a', (g, w, c)) ->
  (forall x, In x c -> (0 <= x)%Z) /\ (sum c <= w)%Z.

Fixpoint account_after (t : list output) : account :=
  match t with [] => first | _ :: past => fst (spend (account_after past) past) end.
Definition takes_part (past : list output) : nat * Z * list Z := snd (spend (account_after past) past).
Definition histograms (present : bool) (past : list output) : list (list Z) :=
  if present then let '(g, _, c) := takes_part past in add_at g (others past) c else others past.
Definition step_mass (present : bool) (past : list output) (o : output) : R :=
  slot_likelihood (map rate (prices past)) (histograms present past) o.

(** The probability of a transcript: with u ([true], the stream S) and without ([false], S′). *)
Fixpoint Pr (present : bool) (t : list output) : R :=
  match t with [] => 1 | o :: past => Pr present past * step_mass present past o end.

(** What u loses in a slot: E · grains. *)
Definition slot_loss (past : list output) : Z := let '(g, w, _) := takes_part past in (nth g (prices past) 0 * w)%Z.
Fixpoint total_loss (t : list output) : Z :=
  match t with [] => 0%Z | _ :: past => (slot_loss past + total_loss past)%Z end.

Lemma rates_pos : forall past r, In r (map rate (prices past)) -> 0 < r.
Proof. intros past r H. apply in_map_iff in H as [p [<- H]]. eapply rate_pos, prices_pos, H. Qed.

Lemma nth_rate : forall l g, nth g (map rate l) 0 = rate (nth g l 0%Z).
Proof.
  intros l. induction l as [|x l IH]; intros [|g]; cbn; auto; unfold rate, Rdiv; rewrite Rmult_0_l; reflexivity.
Qed.

Lemma slot_step : forall present past o,
  step_mass present past o <= exp (IZR (slot_loss past) / (IZR UNITS * IZR GRAINS)) * step_mass (negb present) past o.
Proof.
  intros present past o. unfold step_mass, histograms, slot_loss. unfold takes_part.
  destruct (spend (account_after past) past) as [a' [[g w] c]] eqn:E. cbn [snd].
  destruct (adds_at_most_its_weight _ _ _ _ _ _ E) as [C1 C2]. pose proof (sum_nonneg c C1).
  pose proof (add_distance (nth g (others past) []) c C1) as [D1 D2].
  replace (IZR (nth g (prices past) 0 * w)%Z / (IZR UNITS * IZR GRAINS)) with (nth g (map rate (prices past)) 0 * IZR w)
    by (rewrite nth_rate, mult_IZR; unfold rate, Rdiv; ring).
  destruct present; cbn [negb]; apply slot_ratio; try apply rates_pos; try lia;
    rewrite ?add_at_length, ?add_at_here, ?add_length; auto; try lia;
    intros i I; rewrite add_at_other; auto.
Qed.

Lemma Pr_nonneg : forall present t, 0 <= Pr present t.
Proof.
  induction t as [|o past IH]; cbn; [lra|]. apply Rmult_le_pos; [assumption|]. apply slot_nonneg, rates_pos.
Qed.

Theorem composition : forall present t,
  Pr present t <= exp (IZR (total_loss t) / (IZR UNITS * IZR GRAINS)) * Pr (negb present) t.
Proof.
  intros present t. induction t as [|o past IH]; cbn [Pr total_loss].
  - unfold Rdiv. rewrite Rmult_0_l, exp_0. lra.
  - rewrite plus_IZR. unfold Rdiv. rewrite Rmult_plus_distr_r, exp_plus.
    fold (IZR (slot_loss past) / (IZR UNITS * IZR GRAINS)) (IZR (total_loss past) / (IZR UNITS * IZR GRAINS)).
    pose proof (slot_step present past o). pose proof (Pr_nonneg present past).
    assert (0 <= step_mass present past o) by (apply slot_nonneg, rates_pos).
    set (x := exp (IZR (slot_loss past) / (IZR UNITS * IZR GRAINS))) in *.
    set (y := exp (IZR (total_loss past) / (IZR UNITS * IZR GRAINS))) in *.
    replace (x * y * (Pr (negb present) past * step_mass (negb present) past o))
      with ((y * Pr (negb present) past) * (x * step_mass (negb present) past o)) by ring.
    apply Rmult_le_compat; assumption.
Qed.

End Composition.

(** ** The theorem *)

Section Promise.
Variable cfg : config.
Hypothesis epsilon_range : (0 <= epsilon cfg <= LARGEST)%Z.
Hypothesis top_range : (0 <= top cfg)%Z.
Hypothesis period_range : (0 <= period cfg)%Z.

(** What a curator, or an adversary who has seen all releases, does next; and what u and the others do. *)
Record strategy := {
  act : list output -> action;                     (* a slot with its prices, shares and groups; a copy, a restoration … *)
  present : list output -> bool;                   (* whether u is there *)
  adds : list output -> Z -> list Z;               (* what u adds to the bins at a weight *)
  the_others : list output -> list (list Z)        (* the histograms of all other users *)
}.

Definition measured (x : action) : list Z :=
  match x with
  | PayPolicy _ _ e _ _ _ _ => [e]
  | PayClass _ _ groups _ _ => map fst groups
  | _ => []
  end.
Definition if_here (here : bool) (x : action) : action :=
  match x with
  | PayPolicy s t e num den whole _ => PayPolicy s t e num den whole here
  | PayClass s t groups whole _ => PayClass s t groups whole here
  | _ => x
  end.
Fixpoint group_of (m : Z) (groups : list group) : nat :=
  match groups with [] => O | (_, classes) :: rest => if has m classes then O else S (group_of m rest) end.
Definition own_group (st : state) (x : action) : nat :=
  match x with PayClass s t groups _ _ => group_of (class_of cfg (now st) s (epoch_of cfg t)) groups | _ => O end.

(** A public strategy: quotas stay, every measured group has a price, and u adds at most the weight (compression). *)
Definition public_strategy (f : strategy) : Prop :=
  (forall past, match act f past with Assign _ _ => False | _ => True end) /\
  (forall past p, In p (measured (act f past)) -> (0 < p)%Z) /\
  (forall past w, (0 <= w)%Z -> (forall x, In x (adds f past w) -> (0 <= x)%Z) /\ (sum (adds f past w) <= w)%Z).

Variable f : strategy.
Hypothesis f_public : public_strategy f.

Definition spends (st : state) (past : list output) : state * (nat * Z * list Z) :=
  match step cfg st (if_here (present f past) (act f past)) with
  | None => (st, (O, 0%Z, []))
  | Some (st', (grains, _)) => (st', (own_group st (act f past), grains, adds f past grains))
  end.

(** The probability of a transcript, with u and without. *)
Definition Pr_S : list output -> R := Pr state (start 0) spends (fun past => measured (act f past)) (the_others f) true.
Definition Pr_S' : list output -> R := Pr state (start 0) spends (fun past => measured (act f past)) (the_others f) false.
Definition state_after : list output -> state := account_after state (start 0) spends.

Lemma settle_grains : forall st s t price grains seen' st' g cost,
  settle cfg st s t price grains seen' = Some (st', (g, cost)) ->
  g = grains /\ exists k d, paid st' = (k, d, price * grains)%Z :: paid st.
Proof.
  intros st s t price grains seen' st' g cost E. unfold settle in E.
  destruct (pay cfg (now st) s t price grains) as [[a c]|]; [|discriminate]. injection E as <- <- <-. cbn. eauto.
Qed.

Lemma group_price : forall groups m, snd (due m groups) = 0%Z \/ nth (group_of m groups) (map fst groups) 0%Z = fst (due m groups).
Proof.
  induction groups as [|[p cl] groups IH]; intros m; cbn; [now left|]. destruct (has m cl); cbn; auto.
Qed.

(** What a slot adds to the account's list of losses is what u loses there. *)
Lemma step_loss : forall st past st' g w c, spends st past = (st', (g, w, c)) ->
  (0 <= w)%Z /\ sum (map snd (paid st')) = (nth g (measured (act f past)) 0 * w + sum (map snd (paid st)))%Z.
Proof.
  intros st past st' g w c E. unfold spends in E.
  destruct (step cfg st (if_here (present f past) (act f past))) as [[s1 [gr co]]|] eqn:Q; [|injection E as <- <- <- <-; rewrite Z.mul_0_r; split; reflexivity || lia].
  injection E as <- <- <- _. destruct (act f past) as [s t e num den wh h|s t groups wh h| | | |n]; cbn [if_here step measured own_group] in *.
  - destruct (_ && _) in Q; [|discriminate]. apply settle_grains in Q as [-> (k & d & ->)].
    split; [destruct (present f past); [apply weight_range|lia]|]. reflexivity.
  - destruct (_ && _) in Q; [|discriminate].
    destruct (weights_by_class cfg (now st) s (epoch_of cfg t) groups) as [price gr'] eqn:W.
    apply settle_grains in Q as [-> (k & d & ->)].
    split; [destruct (present f past); [apply weight_range|lia]|].
    match goal with |- sum (map snd ((_, _, ?p) :: ?l)) = _ => change (sum (map snd ((k, d, p) :: l))) with (p + sum (map snd l))%Z end.
    unfold weights_by_class in W. destruct (group_price groups (class_of cfg (now st) s (epoch_of cfg t))) as [Z0|P].
    + destruct (due _ groups) as [p steps]. cbn in Z0. subst steps. injection W as <- <-.
      assert (Zero : parts (left_at cfg (now st) (epoch_of cfg t)) 0 = 0%Z)
        by (unfold parts; rewrite Z.mul_0_r; apply Z.div_0_l; pose proof STEPS_pos; lia).
      rewrite Zero. cbn [Z.ltb Z.compare].
      assert (Z1 : (if present f past then weight (whole_or_none wh 0) else 0)%Z = 0%Z).
      { destruct (present f past); [|reflexivity]. unfold whole_or_none, weight. pose proof GRAINS_pos. destruct (wh && _); lia. }
      rewrite Z1. lia.
    + rewrite P. destruct (due _ groups) as [p steps]. injection W as <- _. reflexivity.
  - destruct (0 <=? units)%Z; [|discriminate]. injection Q as <- <- _. cbn [paid nth]. lia.
  - destruct (_ && _) in Q; [|discriminate]. injection Q as <- <- _. cbn [paid nth]. lia.
  - injection Q as <- <- _. cbn [paid nth]. lia.
  - destruct (nth_error (copies st) n) as [[c0 bt]|]; [|discriminate]. destruct (_ && _) in Q; [|discriminate].
    injection Q as <- <- _. cbn [paid nth]. lia.
Qed.

Lemma not_assign : forall past st, honest st (if_here (present f past) (act f past)).
Proof. intros past st. destruct f_public as [A _]. specialize (A past). destruct (act f past); cbn; auto; contradiction. Qed.

Lemma trace_after : forall t, trace cfg (state_after t).
Proof.
  induction t as [|o past IH]; [apply begins; lia|]. unfold state_after in *. cbn [account_after].
  set (st := account_after state (start 0) spends past) in *. unfold spends at 1.
  destruct (step cfg st (if_here (present f past) (act f past))) as [[st' [g c]]|] eqn:E; [|exact IH]. cbn [fst].
  exact (goes_on cfg st _ st' (g, c) IH (not_assign past st) E).
Qed.

Definition loss_after (t : list output) : Z := total_loss state (start 0) spends (fun past => measured (act f past)) t.

Lemma loss_is_paid : forall t, loss_after t = sum (map snd (paid (state_after t))).
Proof.
  unfold loss_after, state_after. induction t as [|o past IH]; [reflexivity|]. cbn [total_loss account_after].
  unfold slot_loss, takes_part. set (st := account_after state (start 0) spends past) in *.
  destruct (spends st past) as [st' [[g w] c]] eqn:E. cbn [fst snd]. destruct (step_loss _ _ _ _ _ _ E) as [_ ->]. lia.
Qed.

Lemma sum_of_epochs : forall ks l, NoDup ks -> (forall p : Z * Z * Z, In p l -> In (fst (fst p)) ks) ->
  sum (map snd l) = sum (map (fun k => losses k l) ks).
Proof.
  intros ks l N. induction l as [|[[k d] x] l IH]; intros H.
  - change (fun k => losses k []) with (fun _ : Z => 0%Z). rewrite sum_zero. reflexivity.
  - change (sum (map snd ((k, d, x) :: l))) with (x + sum (map snd l))%Z. rewrite IH by (intros; apply H; now right).
    pose proof (H _ (or_introl eq_refl)) as I. cbn in I.
    rewrite (map_ext (fun j => losses j ((k, d, x) :: l)) (fun j => if (j =? k)%Z then (x + losses k l)%Z else losses j l)).
    + rewrite (sum_update ks (fun j => losses j l) k _ N I). cbv beta. lia.
    + intros j. change (losses j ((k, d, x) :: l)) with ((if (k =? j)%Z then x else 0) + losses j l)%Z.
      rewrite (Z.eqb_sym k j). destruct (Z.eqb_spec j k); subst; reflexivity.
Qed.

(** What u loses in a transcript whose slots lie in some epochs is at most ε for each of them. *)
Lemma loss_bound : forall t ks, NoDup ks -> (forall p, In p (paid (state_after t)) -> In (fst (fst p)) ks) ->
  (loss_after t <= Z.of_nat (length ks) * (epsilon cfg * GRAINS))%Z.
Proof.
  intros t ks N H. rewrite loss_is_paid, (sum_of_epochs ks _ N H). pose proof (trace_after t) as T. clear N H.
  induction ks as [|k ks IH]; [cbn; lia|]. pose proof (ledger_keeps_epsilon cfg epsilon_range top_range period_range _ T k).
  change (sum (map (fun k => losses k (paid (state_after t))) (k :: ks)))
    with (losses k (paid (state_after t)) + sum (map (fun k => losses k (paid (state_after t))) ks))%Z.
  cbn [length]. lia.
Qed.

Lemma adds_ok : forall a past a' g w c, spends a past = (a', (g, w, c)) -> (forall x, In x c -> (0 <= x)%Z) /\ (sum c <= w)%Z.
Proof.
  intros a past a' g w c E. destruct (step_loss _ _ _ _ _ _ E) as [W _]. unfold spends in E.
  destruct (step cfg a (if_here (present f past) (act f past))) as [[s1 [gr co]]|]; injection E as _ _ <- <-.
  - destruct f_public as (_ & _ & A). apply (A past gr W).
  - split; [intros x []|cbn; lia].
Qed.

Definition e_power (units : Z) : R := exp (IZR units / IZR UNITS).

Lemma e_power_ge : forall loss units, (loss <= units * GRAINS)%Z -> exp (IZR loss / (IZR UNITS * IZR GRAINS)) <= e_power units.
Proof.
  intros loss units L. unfold e_power.
  assert (U : 0 < IZR UNITS) by (apply IZR_lt; reflexivity). assert (G : 0 < IZR GRAINS) by (apply IZR_lt, GRAINS_pos).
  assert (M : IZR loss / (IZR UNITS * IZR GRAINS) <= IZR units / IZR UNITS).
  { apply Rmult_le_reg_r with (IZR UNITS * IZR GRAINS); [now apply Rmult_lt_0_compat|].
    replace (IZR loss / (IZR UNITS * IZR GRAINS) * (IZR UNITS * IZR GRAINS)) with (IZR loss) by (field; lra).
    replace (IZR units / IZR UNITS * (IZR UNITS * IZR GRAINS)) with (IZR units * IZR GRAINS) by (field; lra).
    rewrite <- mult_IZR. now apply IZR_le. }
  destruct M as [M|M]; [left; now apply exp_increasing|right; now rewrite M].
Qed.

Theorem promise_by_epochs : forall t ks, NoDup ks -> (forall p, In p (paid (state_after t)) -> In (fst (fst p)) ks) ->
  Pr_S t <= e_power (Z.of_nat (length ks) * epsilon cfg) * Pr_S' t /\
  Pr_S' t <= e_power (Z.of_nat (length ks) * epsilon cfg) * Pr_S t.
Proof.
  intros t ks N H. pose proof (loss_bound t ks N H) as L. rewrite Z.mul_assoc in L. apply e_power_ge in L.
  destruct f_public as (_ & P & _).
  pose proof (composition state (start 0) spends (fun past => measured (act f past)) (the_others f) P adds_ok) as C.
  split; [pose proof (C true t) as D|pose proof (C false t) as D]; cbn [negb] in D;
    (eapply Rle_trans; [exact D|]); apply Rmult_le_compat_r; auto; apply Pr_nonneg; exact P.
Qed.

(** *** The promise: for all neighbours S and S′ = S - u, every public strategy and every transcript of any length. *)
Theorem promise : period cfg = 0%Z -> forall t,
  Pr_S t <= exp (IZR (epsilon cfg) / IZR UNITS) * Pr_S' t /\ Pr_S' t <= exp (IZR (epsilon cfg) / IZR UNITS) * Pr_S t.
Proof.
  intros P t. pose proof (promise_by_epochs t [0%Z]) as H. unfold e_power in H. cbn [length Z.of_nat Pos.of_succ_nat] in H.
  rewrite Z.mul_1_l in H. apply H.
  - constructor; [intros []|constructor].
  - intros p I. left. symmetry. apply (i_paid cfg _ (trace_invariant cfg epsilon_range top_range period_range _ (trace_after t)) p I), P.
Qed.

(** Sets of transcripts: of any finite list of them, and of any sequence whose probabilities converge. *)
Corollary promise_for_sets : period cfg = 0%Z -> forall set : nat -> list output,
  (forall n, sum_f_R0 (fun i => Pr_S (set i)) n <= exp (IZR (epsilon cfg) / IZR UNITS) * sum_f_R0 (fun i => Pr_S' (set i)) n) /\
  (forall p p', infinite_sum (fun i => Pr_S (set i)) p -> infinite_sum (fun i => Pr_S' (set i)) p' ->
     p <= exp (IZR (epsilon cfg) / IZR UNITS) * p').
Proof.
  intros P set. set (e := exp (IZR (epsilon cfg) / IZR UNITS)).
  assert (F : forall n, sum_f_R0 (fun i => Pr_S (set i)) n <= e * sum_f_R0 (fun i => Pr_S' (set i)) n).
  { induction n as [|n IH]; cbn; [apply promise, P|]. pose proof (proj1 (promise P (set (S n)))) as H. fold e in H. lra. }
  split; [exact F|]. intros p p' A B.
  eapply Rle_cv_lim; [exact F|exact A|].
  apply CV_mult; [|exact B]. intros eps E. exists O. intros n _. unfold R_dist. rewrite Rminus_diag_eq, Rabs_R0; auto.
Qed.

End Promise.

(** Replacement: u did other things. Both streams are neighbours of the one without u. *)
Theorem promise_under_replacement : forall cfg, (0 <= epsilon cfg <= LARGEST)%Z -> (0 <= top cfg)%Z -> period cfg = 0%Z ->
  forall f g, public_strategy f -> public_strategy g ->
  (forall past, act f past = act g past) -> (forall past, the_others f past = the_others g past) ->
  forall t, Pr_S cfg f t <= exp (2 * (IZR (epsilon cfg) / IZR UNITS)) * Pr_S cfg g t.
Proof.
  intros cfg E T P f g F G A O t.
  assert (Same : forall t, Pr_S' cfg f t = Pr_S' cfg g t).
  { unfold Pr_S'. induction t0 as [|o past IH]; [reflexivity|]. cbn [Pr]. rewrite IH. f_equal.
    unfold step_mass, histograms. now rewrite A, O. }
  pose proof (proj1 (promise cfg E T ltac:(lia) f F P t)) as H1. pose proof (proj2 (promise cfg E T ltac:(lia) g G P t)) as H2.
  rewrite Same in H1. replace (2 * (IZR (epsilon cfg) / IZR UNITS)) with (IZR (epsilon cfg) / IZR UNITS + IZR (epsilon cfg) / IZR UNITS) by ring.
  rewrite exp_plus, Rmult_assoc. eapply Rle_trans; [exact H1|]. apply Rmult_le_compat_l; [left; apply exp_pos|exact H2].
Qed.
