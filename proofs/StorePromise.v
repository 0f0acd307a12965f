(** The promise for a whole store: streams that share a ledger, quotas that grow, separate ledgers, periods and series, and
    the rows of u as they are compressed. No transcript is more than e^P times as likely with u as without, where P is the
    sum that [dpi verify] prints after it. *)

From Coq Require Import Reals ZArith List Bool Lra Lia.
Require Import Ledger Lost Invariant Payments Trace Quota Compression Bounds Epochs Laplace Mass Promise Store.
Import ListNotations.
Open Scope R_scope.

(** ** A slot of several histograms, to all of which u may add *)

(** Noise on every histogram that has a price; one without is not looked at. *)
Fixpoint slot_law (prices : list Z) (hs outs : list (list Z)) : R :=
  match prices, hs, outs with
  | [], [], [] => 1
  | p :: ps, h :: hs', o :: os =>
      (if (0 <? p)%Z then likelihood (rate p) h o else match o with [] => 1 | _ => 0 end) * slot_law ps hs' os
  | _, _, _ => 0
  end.

(** Where every histogram has a price it is the law whose mass [step_mass_sums_to_one] sums up. *)
Lemma slot_law_is_a_law : forall prices hs outs, (forall p, In p prices -> (0 < p)%Z) ->
  slot_law prices hs outs = slot_likelihood (map rate prices) hs outs.
Proof.
  induction prices as [|p ps IH]; intros [|h hs] [|o outs] P; cbn; try reflexivity.
  rewrite IH by (intros; apply P; now right). destruct (Z.ltb_spec 0 p); [reflexivity|]. specialize (P p (or_introl eq_refl)). lia.
Qed.

Fixpoint add_all (hs cs : list (list Z)) : list (list Z) :=
  match hs, cs with h :: hs', c :: cs' => add h c :: add_all hs' cs' | _, _ => hs end.
Fixpoint lost_in (prices : list Z) (cs : list (list Z)) : Z :=
  match prices, cs with p :: ps, c :: cs' => (Z.max 0 p * sum c + lost_in ps cs')%Z | _, _ => 0%Z end.
Definition nonnegative (cs : list (list Z)) : Prop := forall c, In c cs -> forall x, In x c -> (0 <= x)%Z.

Definition SCALE : R := IZR UNITS * IZR GRAINS.

Lemma slot_law_nonneg : forall prices hs outs, 0 <= slot_law prices hs outs.
Proof.
  induction prices as [|p ps IH]; intros [|h hs] [|o outs]; cbn; try lra. apply Rmult_le_pos; [|apply IH].
  destruct (Z.ltb_spec 0 p); [now apply likelihood_nonneg, rate_pos|destruct o; lra].
Qed.

Lemma exp_more : forall x y, x <= y -> exp x <= exp y.
Proof. intros x y [H|H]; [left; now apply exp_increasing|right; now rewrite H]. Qed.

Lemma slot_law_ratio : forall prices hs cs outs, nonnegative cs ->
  slot_law prices (add_all hs cs) outs <= exp (IZR (lost_in prices cs) / SCALE) * slot_law prices hs outs /\
  slot_law prices hs outs <= exp (IZR (lost_in prices cs) / SCALE) * slot_law prices (add_all hs cs) outs.
Proof.
  assert (Sc : 0 < SCALE) by apply denominator_pos.
  assert (Eq : forall z, (0 <= z)%Z -> 1 <= exp (IZR z / SCALE)).
  { intros z Z. rewrite <- exp_0. apply exp_more. apply Rmult_le_pos; [now apply IZR_le|]. left. now apply Rinv_0_lt_compat. }
  assert (Up : forall a x, 1 <= a -> 0 <= x -> x <= a * x) by (intros; nra).
  assert (Loss : forall prices cs, nonnegative cs -> (0 <= lost_in prices cs)%Z).
  { induction prices as [|p ps IH]; intros [|c cs] N; cbn; try lia. specialize (IH cs (fun d D => N d (or_intror D))).
    pose proof (sum_nonneg c (N c (or_introl eq_refl))). nia. }
  induction prices as [|p ps IH]; intros hs cs outs N.
  - cbn [lost_in]. replace (IZR 0 / SCALE) with 0 by (unfold Rdiv; ring). rewrite exp_0.
    destruct hs as [|h hs], cs as [|c cs], outs as [|o outs]; cbn; lra.
  - pose proof (Loss (p :: ps) cs N) as L.
    destruct hs as [|h hs]; [cbn [add_all]; split; apply Up; auto using slot_law_nonneg|].
    destruct cs as [|c cs]; [cbn [add_all]; split; apply Up; auto using slot_law_nonneg|].
    destruct outs as [|o outs]; [cbn; lra|].
    cbn [slot_law add_all lost_in] in *. destruct (IH hs cs outs (fun d D => N d (or_intror D))) as [I1 I2].
    rewrite plus_IZR. unfold Rdiv. rewrite Rmult_plus_distr_r, exp_plus. fold (IZR (Z.max 0 p * sum c) / SCALE) (IZR (lost_in ps cs) / SCALE).
    set (x := exp (IZR (Z.max 0 p * sum c) / SCALE)). set (y := exp (IZR (lost_in ps cs) / SCALE)) in *.
    pose proof (sum_nonneg c (N c (or_introl eq_refl))) as Sc0.
    assert (H : (if (0 <? p)%Z then likelihood (rate p) (add h c) o else match o with [] => 1 | _ => 0 end) <=
                x * (if (0 <? p)%Z then likelihood (rate p) h o else match o with [] => 1 | _ => 0 end) /\
                (if (0 <? p)%Z then likelihood (rate p) h o else match o with [] => 1 | _ => 0 end) <=
                x * (if (0 <? p)%Z then likelihood (rate p) (add h c) o else match o with [] => 1 | _ => 0 end)).
    { destruct (Z.ltb_spec 0 p) as [P|P].
      - destruct (add_distance h c (N c (or_introl eq_refl))) as [D1 D2]. pose proof (rate_pos p P) as Rp.
        assert (G : forall d, (d <= sum c)%Z -> exp (rate p * IZR d) <= x).
        { intros d D. apply exp_more. rewrite Z.max_r, mult_IZR by lia. unfold rate. fold SCALE.
          replace (IZR p * IZR (sum c) / SCALE) with (IZR p / SCALE * IZR (sum c)) by (unfold Rdiv; ring).
          apply Rmult_le_compat_l; [left; exact Rp|now apply IZR_le]. }
        split; (eapply Rle_trans; [apply likelihood_ratio; [exact Rp|rewrite add_length; reflexivity]|]);
          apply Rmult_le_compat_r; auto; now apply likelihood_nonneg.
      - assert (1 <= x) by (apply Eq; nia). destruct o; lra. }
    destruct H as [H1 H2].
    assert (A : forall h', 0 <= (if (0 <? p)%Z then likelihood (rate p) h' o else match o with [] => 1 | _ => 0 end)).
    { intros h'. destruct (Z.ltb_spec 0 p); [now apply likelihood_nonneg, rate_pos|destruct o; lra]. }
    split.
    + replace (x * y * ((if (0 <? p)%Z then likelihood (rate p) h o else match o with [] => 1 | _ => 0 end) * slot_law ps hs outs))
        with ((x * (if (0 <? p)%Z then likelihood (rate p) h o else match o with [] => 1 | _ => 0 end)) * (y * slot_law ps hs outs)) by ring.
      apply Rmult_le_compat; auto using slot_law_nonneg.
    + replace (x * y * ((if (0 <? p)%Z then likelihood (rate p) (add h c) o else match o with [] => 1 | _ => 0 end) * slot_law ps (add_all hs cs) outs))
        with ((x * (if (0 <? p)%Z then likelihood (rate p) (add h c) o else match o with [] => 1 | _ => 0 end)) * (y * slot_law ps (add_all hs cs) outs)) by ring.
      apply Rmult_le_compat; auto using slot_law_nonneg.
Qed.

(** ** What u adds: the rows of u, compressed, in the histograms of u's own group *)

(** The histograms of a slot: for each price of a group the parts that it is divided into. *)
Definition all_prices (r : rule) (ps : list Z) : list Z := concat (map (divided r) ps).
Definition added (r : rule) (g : nat) (w : Z) (l : rows) : list (list Z) :=
  repeat [] (g * length (divided r 0)) ++ compressed r w l.

Lemma divided_length : forall r p, length (divided r p) = length (divided r 0).
Proof. induction r; intros; try reflexivity. apply IHr. Qed.

Lemma compressed_length : forall r w l, length (compressed r w l) = length (divided r 0).
Proof. induction r; intros; try reflexivity. cbn [compressed divided]. now rewrite map_length. Qed.

Lemma lost_in_nothing : forall n ps, lost_in ps (repeat [] n) = 0%Z.
Proof. induction n as [|n IH]; intros [|p ps]; cbn; try reflexivity. rewrite IH. lia. Qed.

Lemma lost_in_app : forall ps qs cs ds, length ps = length cs -> lost_in (ps ++ qs) (cs ++ ds) = (lost_in ps cs + lost_in qs ds)%Z.
Proof. induction ps as [|p ps IH]; intros qs [|c cs] ds L; cbn in L |- *; try discriminate; [reflexivity|]. rewrite IH by lia. lia. Qed.

Lemma lost_in_longer : forall ps qs cs, length ps = length cs -> lost_in (ps ++ qs) cs = lost_in ps cs.
Proof.
  intros ps qs cs L. rewrite <- (app_nil_r cs) at 1. rewrite lost_in_app by assumption.
  replace (lost_in qs []) with 0%Z by (destruct qs; reflexivity). lia.
Qed.

Lemma lost_within : forall ps cs w, (forall p, In p ps -> (0 <= p)%Z) -> (forall c, In c cs -> within w c) -> (0 <= w)%Z ->
  (lost_in ps cs <= sum ps * w)%Z.
Proof.
  induction ps as [|p ps IH]; intros [|c cs] w P C W; cbn [lost_in]; try lia.
  - cbn. lia.
  - cbn. lia.
  - pose proof (sum_nonneg (p :: ps) P). nia.
  - change (sum (p :: ps)) with (p + sum ps)%Z. specialize (IH cs w (fun q Q => P q (or_intror Q)) (fun d D => C d (or_intror D)) W).
    destruct (C c (or_introl eq_refl)) as [_ S]. pose proof (P p (or_introl eq_refl)). nia.
Qed.

(** With a rule that keeps no event nothing is added. *)
Lemma compressed_within : forall r w l, (0 <= w)%Z -> forall c, In c (compressed r w l) -> within w c.
Proof.
  intros r w l W. induction r as [|[|n] order|cuts|most choice|most choice place bins part|place number r IH]; intros c H;
    try (match type of H with In _ (compressed ?r w l) => exact (compressed_adds_its_weight r w l eq_refl W c H) end).
  - destruct H as [<-|[]]. unfold within, truncated.
    generalize (if (sum (counts l) <=? Z.of_nat 0)%Z then counts l else times (length l) (firstn 0 (order l))). intros k.
    change (Z.of_nat 0) with 0%Z. rewrite Zdiv_0_r, (map_ext _ (fun _ => 0%Z)) by (intros; lia). rewrite sum_zero.
    split; [|assumption]. intros x X. apply in_map_iff in X as [y [<- _]]. lia.
  - cbn [compressed] in H. apply in_map_iff in H as [d [<- D]]. now apply blocks_within, IH.
Qed.

Lemma added_loss : forall r ps g w l, (forall p, In p ps -> (0 <= p)%Z) -> (0 <= w)%Z ->
  (lost_in (all_prices r ps) (added r g w l) <= nth g ps 0 * w)%Z /\ nonnegative (added r g w l).
Proof.
  intros r ps g w l P W. pose proof (compressed_within r w l W) as C. split.
  - unfold added, all_prices. revert ps P. induction g as [|g IH]; intros [|p ps] P; cbn [map concat nth].
    + cbn. lia.
    + cbn [Nat.mul repeat app]. rewrite lost_in_longer by (now rewrite divided_length, compressed_length).
      destruct (divided_sums r p (P p (or_introl eq_refl))) as [D1 D2].
      pose proof (lost_within (divided r p) (compressed r w l) w D1 C W). lia.
    + cbn. lia.
    + cbn [Nat.mul]. rewrite repeat_app, <- app_assoc, lost_in_app by (now rewrite repeat_length, divided_length).
      rewrite lost_in_nothing. rewrite Z.add_0_l. apply IH. intros q Q. apply P. now right.
  - intros c H x X. unfold added in H. apply in_app_or in H as [H|H]; [apply repeat_spec in H; subst; destruct X|].
    apply (C c H), X.
Qed.

(** ** The theorem *)

(** What a curator, or an adversary who has seen all releases, does next; and what u and the others do. There is no
    condition on it: what the program refuses is refused. *)
Record life := {
  deed_after : list output -> deed;              (* a stream is opened, a quota grows, a slot, a copy, a restoration *)
  rule_after : list output -> rule;              (* how rows of this slot are counted *)
  u_is_there : list output -> bool;
  rows_of_u : list output -> rows;
  other_users : list output -> list (list Z)     (* the histograms of everybody else *)
}.

Definition if_present (here : bool) (d : deed) : deed :=
  match d with
  | Pay p q x => Pay p q (if_here here x)
  | Draw p e _ => Draw p e here
  | _ => d
  end.

Section Life.
Variable f : life.

Definition moved (s : store) (past : list output) : store * list (list Z) :=
  match store_step s (if_present (u_is_there f past) (deed_after f past)) with
  | None => (s, [])
  | Some (s', (g, w)) => (s', added (rule_after f past) g w (rows_of_u f past))
  end.

Fixpoint store_after (t : list output) : store :=
  match t with [] => [] | _ :: past => fst (moved (store_after past) past) end.
Definition of_u (past : list output) : list (list Z) := snd (moved (store_after past) past).

Definition slot_prices (past : list output) : list Z := all_prices (rule_after f past) (prices (deed_after f past)).
Definition slot_mass (with_u : bool) (past : list output) (o : output) : R :=
  slot_law (slot_prices past) (if with_u then add_all (other_users f past) (of_u past) else other_users f past) o.

(** The probability of a transcript, with u ([true], the stream S) and without ([false], S′). *)
Fixpoint Probability (with_u : bool) (t : list output) : R :=
  match t with [] => 1 | o :: past => Probability with_u past * slot_mass with_u past o end.

Fixpoint lost_along (t : list output) : Z :=
  match t with [] => 0%Z | _ :: past => (lost_in (slot_prices past) (of_u past) + lost_along past)%Z end.

Lemma Probability_nonneg : forall with_u t, 0 <= Probability with_u t.
Proof. induction t as [|o past IH]; cbn; [lra|]. apply Rmult_le_pos; [assumption|apply slot_law_nonneg]. Qed.

Lemma prices_if_present : forall here d, prices (if_present here d) = prices d.
Proof. intros here [| | | |p q x|]; try reflexivity. destruct x; reflexivity. Qed.

Lemma moved_spec : forall s past, (history s -> history (fst (moved s past))) /\ nonnegative (snd (moved s past)) /\
  (lost_in_store s + lost_in (slot_prices past) (snd (moved s past)) <= lost_in_store (fst (moved s past)))%Z.
Proof.
  intros s past. unfold moved. destruct (store_step s _) as [[s' [g w]]|] eqn:E; cbn [fst snd].
  - split; [intros H; exact (continues _ _ _ _ H E)|]. destruct (store_step_loss _ _ _ _ _ E) as (W & L & P).
    rewrite prices_if_present in L, P.
    destruct (added_loss (rule_after f past) (prices (deed_after f past)) g w (rows_of_u f past) P W) as [A B].
    split; [exact B|]. unfold slot_prices. lia.
  - split; [auto|]. split; [intros c []|]. destruct (slot_prices past); cbn; lia.
Qed.

Lemma store_history : forall t, history (store_after t).
Proof. induction t as [|o past IH]; cbn; [constructor|]. now apply moved_spec. Qed.

Lemma along_is_lost : forall t, (lost_along t <= lost_in_store (store_after t))%Z.
Proof.
  induction t as [|o past IH]; cbn [lost_along store_after]; [cbn; lia|]. destruct (moved_spec (store_after past) past) as (_ & _ & M). unfold of_u. lia.
Qed.

Lemma along_ratio : forall t,
  Probability true t <= exp (IZR (lost_along t) / SCALE) * Probability false t /\
  Probability false t <= exp (IZR (lost_along t) / SCALE) * Probability true t.
Proof.
  induction t as [|o past [I1 I2]]; cbn [Probability lost_along].
  - unfold Rdiv. rewrite Rmult_0_l, exp_0. lra.
  - destruct (moved_spec (store_after past) past) as (_ & N & _).
    destruct (slot_law_ratio (slot_prices past) (other_users f past) (of_u past) o N) as [S1 S2].
    rewrite plus_IZR. unfold Rdiv. rewrite Rmult_plus_distr_r, exp_plus.
    fold (IZR (lost_in (slot_prices past) (of_u past)) / SCALE) (IZR (lost_along past) / SCALE).
    set (x := exp (IZR (lost_in (slot_prices past) (of_u past)) / SCALE)) in *. set (y := exp (IZR (lost_along past) / SCALE)) in *.
    unfold slot_mass. split.
    + replace (x * y * (Probability false past * slot_law (slot_prices past) (other_users f past) o))
        with ((y * Probability false past) * (x * slot_law (slot_prices past) (other_users f past) o)) by ring.
      apply Rmult_le_compat; auto using Probability_nonneg, slot_law_nonneg.
    + replace (x * y * (Probability true past * slot_law (slot_prices past) (add_all (other_users f past) (of_u past)) o))
        with ((y * Probability true past) * (x * slot_law (slot_prices past) (add_all (other_users f past) (of_u past)) o)) by ring.
      apply Rmult_le_compat; auto using Probability_nonneg, slot_law_nonneg.
Qed.

(** *** The promise of a store: what [dpi verify] prints after a transcript bounds the loss of every user, for all
    neighbours, all strategies and transcripts of any length. *)
Theorem promise_of_a_store : forall t,
  Probability true t <= e_power (printed (store_after t)) * Probability false t /\
  Probability false t <= e_power (printed (store_after t)) * Probability true t.
Proof.
  intros t. destruct (along_ratio t) as [A B]. pose proof (along_is_lost t) as L.
  destruct (store_loses_what_verify_prints _ (store_history t)) as [P _].
  assert (E : exp (IZR (lost_along t) / SCALE) <= e_power (printed (store_after t))) by (apply e_power_ge; lia).
  split; (eapply Rle_trans; [eassumption|]); apply Rmult_le_compat_r; auto using Probability_nonneg.
Qed.

Lemma e_power_more : forall x y, (x <= y)%Z -> e_power x <= e_power y.
Proof.
  intros x y H. apply exp_more. unfold Rdiv. apply Rmult_le_compat_r; [|now apply IZR_le]. left. apply Rinv_0_lt_compat, IZR_lt. reflexivity.
Qed.

(** And that is at most what was promised: the sum of ε over all pools, for each epoch where there is a period. *)
Corollary promise_of_all_pools : forall t,
  Probability true t <= e_power (promised (store_after t)) * Probability false t /\
  Probability false t <= e_power (promised (store_after t)) * Probability true t.
Proof.
  intros t. destruct (promise_of_a_store t) as [A B].
  destruct (store_loses_what_verify_prints _ (store_history t)) as [_ P]. apply e_power_more in P.
  split; (eapply Rle_trans; [eassumption|]); apply Rmult_le_compat_r; auto using Probability_nonneg.
Qed.

(** Finite and countable sets of transcripts that promise no more than e units. *)
Corollary promise_of_a_store_for_sets : forall e (set : nat -> list output), (forall i, (printed (store_after (set i)) <= e)%Z) ->
  (forall n, sum_f_R0 (fun i => Probability true (set i)) n <= e_power e * sum_f_R0 (fun i => Probability false (set i)) n) /\
  (forall p p', infinite_sum (fun i => Probability true (set i)) p -> infinite_sum (fun i => Probability false (set i)) p' ->
     p <= e_power e * p').
Proof.
  intros e set E.
  assert (One : forall i, Probability true (set i) <= e_power e * Probability false (set i)).
  { intros i. eapply Rle_trans; [apply promise_of_a_store|]. apply Rmult_le_compat_r; [apply Probability_nonneg|]. now apply e_power_more. }
  assert (F : forall n, sum_f_R0 (fun i => Probability true (set i)) n <= e_power e * sum_f_R0 (fun i => Probability false (set i)) n).
  { induction n as [|n IH]; cbn; [apply One|]. pose proof (One (S n)). lra. }
  split; [exact F|]. intros p p' A B. eapply Rle_cv_lim; [exact F|exact A|].
  apply CV_mult; [|exact B]. intros eps X. exists O. intros n _. unfold R_dist. rewrite Rminus_diag_eq, Rabs_R0; auto.
Qed.

End Life.
