(** The discrete Laplace mechanism: its mass sums to one, and one user changes likelihoods by at most e^(E·w). *)

From Coq Require Import Reals ZArith List Lra Lia.
Import ListNotations.
Open Scope R_scope.

(** ** The law P(z) = (1 - q)/(1 + q) · q^|z| with q = e^(-rate), on all integers *)

Definition ratio (rate : R) : R := exp (- rate).
Definition mass (rate : R) (z : Z) : R := (1 - ratio rate) / (1 + ratio rate) * exp (- rate * IZR (Z.abs z)).

Lemma ratio_range : forall rate, 0 < rate -> 0 < ratio rate < 1.
Proof.
  intros rate H. unfold ratio. split; [apply exp_pos|]. rewrite <- exp_0. apply exp_increasing. lra.
Qed.

Lemma mass_pos : forall rate z, 0 < rate -> 0 < mass rate z.
Proof.
  intros rate z H. pose proof (ratio_range rate H). unfold mass. apply Rmult_lt_0_compat; [|apply exp_pos].
  apply Rdiv_lt_0_compat; lra.
Qed.

(** The mass of {-n, …, n}. *)
Fixpoint mass_within (rate : R) (n : nat) : R :=
  match n with
  | O => mass rate 0
  | S n' => mass_within rate n' + (mass rate (Z.of_nat n) + mass rate (- Z.of_nat n))
  end.

Lemma exp_power : forall rate n, exp (- rate * IZR (Z.of_nat n)) = ratio rate ^ n.
Proof.
  intros rate n. unfold ratio. induction n as [|n IH].
  - cbn. rewrite Rmult_0_r. apply exp_0.
  - rewrite Nat2Z.inj_succ, succ_IZR, Rmult_plus_distr_l, exp_plus, IH, Rmult_1_r. cbn. ring.
Qed.

Lemma mass_within_closed : forall rate n, 0 < rate ->
  mass_within rate n = 1 - 2 * ratio rate ^ S n / (1 + ratio rate).
Proof.
  intros rate n H. pose proof (ratio_range rate H). induction n as [|n IH].
  - cbn [mass_within]. unfold mass. change (Z.abs 0) with 0%Z. rewrite Rmult_0_r, exp_0, pow_1. field. lra.
  - cbn [mass_within]. rewrite IH. unfold mass. rewrite Z.abs_opp.
    replace (Z.abs (Z.of_nat (S n))) with (Z.of_nat (S n)) by lia. rewrite exp_power.
    cbn [pow]. field. lra.
Qed.

(** The mass function sums to one: the mass of {-n, …, n} tends to it. *)
Theorem mass_sums_to_one : forall rate, 0 < rate -> Un_cv (mass_within rate) 1.
Proof.
  intros rate H. pose proof (ratio_range rate H) as Q. intros eps E.
  destruct (pow_lt_1_zero (ratio rate) ltac:(rewrite Rabs_right; lra) (eps / 2) ltac:(lra)) as [N P].
  exists N. intros n Hn. unfold R_dist. rewrite mass_within_closed by assumption.
  replace (1 - 2 * ratio rate ^ S n / (1 + ratio rate) - 1) with (- (2 * ratio rate ^ S n / (1 + ratio rate))) by ring.
  rewrite Rabs_Ropp. specialize (P (S n) ltac:(lia)).
  assert (0 < ratio rate ^ S n) by (apply pow_lt; lra).
  rewrite Rabs_right in P by lra. rewrite Rabs_right.
  - apply Rle_lt_trans with (2 * ratio rate ^ S n); [|lra].
    unfold Rdiv. rewrite <- (Rmult_1_r (2 * ratio rate ^ S n)) at 2. apply Rmult_le_compat_l; [lra|].
    rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
  - apply Rle_ge. apply Rmult_le_pos; [lra|]. left. apply Rinv_0_lt_compat. lra.
Qed.

(** ** Likelihood ratios *)

Lemma mass_ratio : forall rate x y, 0 < rate -> mass rate x <= exp (rate * IZR (Z.abs (x - y))) * mass rate y.
Proof.
  intros rate x y H. pose proof (ratio_range rate H). unfold mass.
  replace (exp (rate * IZR (Z.abs (x - y))) * ((1 - ratio rate) / (1 + ratio rate) * exp (- rate * IZR (Z.abs y))))
    with ((1 - ratio rate) / (1 + ratio rate) * exp (rate * IZR (Z.abs (x - y)) + - rate * IZR (Z.abs y)))
    by (rewrite exp_plus; ring).
  apply Rmult_le_compat_l; [left; apply Rdiv_lt_0_compat; lra|].
  assert (L : IZR (Z.abs y) <= IZR (Z.abs x) + IZR (Z.abs (x - y))) by (rewrite <- plus_IZR; apply IZR_le; lia).
  assert (M : - rate * IZR (Z.abs x) <= rate * IZR (Z.abs (x - y)) + - rate * IZR (Z.abs y)) by nra.
  destruct M as [M|M]; [left; now apply exp_increasing|right; now rewrite M].
Qed.

(** The likelihood of noisy values [out] for a histogram [h]: independent noise on every bin, P(Z = out - h). *)
Fixpoint likelihood (rate : R) (h out : list Z) : R :=
  match h, out with
  | [], [] => 1
  | x :: h', z :: out' => mass rate (z - x) * likelihood rate h' out'
  | _, _ => 0
  end.

Fixpoint distance (h h' : list Z) : Z :=
  match h, h' with x :: l, y :: l' => (Z.abs (x - y) + distance l l')%Z | _, _ => 0%Z end.

Lemma distance_nonneg : forall h h', (0 <= distance h h')%Z.
Proof. induction h as [|x h IH]; intros [|y h']; cbn; try lia. specialize (IH h'). lia. Qed.

Lemma likelihood_nonneg : forall rate h out, 0 < rate -> 0 <= likelihood rate h out.
Proof.
  intros rate h. induction h as [|x h IH]; intros [|z out] H; cbn; try lra.
  apply Rmult_le_pos; [left; apply mass_pos; assumption|auto].
Qed.

Theorem likelihood_ratio : forall rate h h' out, 0 < rate -> length h = length h' ->
  likelihood rate h out <= exp (rate * IZR (distance h h')) * likelihood rate h' out.
Proof.
  intros rate h. induction h as [|x h IH]; intros [|y h'] [|z out] H L; cbn in *; try discriminate;
    try (rewrite ?Rmult_0_r, ?exp_0; lra).
  - rewrite plus_IZR, Rmult_plus_distr_l, exp_plus.
    replace (exp (rate * IZR (Z.abs (x - y))) * exp (rate * IZR (distance h h')) * (mass rate (z - y) * likelihood rate h' out))
      with ((exp (rate * IZR (Z.abs (x - y))) * mass rate (z - y)) * (exp (rate * IZR (distance h h')) * likelihood rate h' out)) by ring.
    apply Rmult_le_compat.
    + left. now apply mass_pos.
    + now apply likelihood_nonneg.
    + replace (Z.abs (x - y)) with (Z.abs ((z - x) - (z - y))) by lia. now apply mass_ratio.
    + apply IH; [assumption|lia].
Qed.

(** ** Several groups in one slot, each with noise of its own rate; a user is in one of them *)

Fixpoint slot_likelihood (rates : list R) (hs outs : list (list Z)) : R :=
  match rates, hs, outs with
  | [], [], [] => 1
  | r :: rates', h :: hs', o :: outs' => likelihood r h o * slot_likelihood rates' hs' outs'
  | _, _, _ => 0
  end.

Lemma slot_nonneg : forall rates hs outs, (forall r, In r rates -> 0 < r) -> 0 <= slot_likelihood rates hs outs.
Proof.
  induction rates as [|r rates IH]; intros [|h hs] [|o outs] P; cbn; try lra.
  apply Rmult_le_pos; [apply likelihood_nonneg, P; now left|apply IH; intros; apply P; now right].
Qed.

(** Only group [n] differs, and there by [distance]: the loss is that group's alone. *)
Theorem slot_ratio : forall rates hs hs' outs n d, (forall r, In r rates -> 0 < r) -> length hs = length hs' ->
  (forall i, i <> n -> nth i hs [] = nth i hs' []) -> length (nth n hs []) = length (nth n hs' []) ->
  (distance (nth n hs []) (nth n hs' []) <= d)%Z -> (0 <= d)%Z ->
  slot_likelihood rates hs outs <= exp (nth n rates 0 * IZR d) * slot_likelihood rates hs' outs.
Proof.
  induction rates as [|r rates IH]; intros [|h hs] [|h' hs'] [|o outs] n d P L E N D D0; cbn in L; try discriminate;
    cbn [slot_likelihood]; try (rewrite Rmult_0_r; lra); try lra.
  - destruct n; cbn; rewrite Rmult_0_l, exp_0; lra.
  - destruct n as [|n].
    + cbn in N, D |- *.
      assert (Same : hs = hs').
      { apply nth_ext with (d := []) (d' := []); [lia|]. intros i _. exact (E (S i) ltac:(lia)). }
      rewrite Same, <- Rmult_assoc. apply Rmult_le_compat_r; [apply slot_nonneg; intros; apply P; now right|].
      assert (Hr : 0 < r) by (apply P; now left).
      apply Rle_trans with (exp (r * IZR (distance h h')) * likelihood r h' o); [apply likelihood_ratio; assumption|].
      apply Rmult_le_compat_r; [now apply likelihood_nonneg|].
      assert (M : r * IZR (distance h h') <= r * IZR d) by (apply Rmult_le_compat_l; [lra|now apply IZR_le]).
      destruct M as [M|M]; [left; now apply exp_increasing|right; now rewrite M].
    + assert (h = h') by exact (E O ltac:(lia)). subst h'. cbn [nth] in *.
      replace (exp (nth n rates 0 * IZR d) * (likelihood r h o * slot_likelihood rates hs' outs))
        with (likelihood r h o * (exp (nth n rates 0 * IZR d) * slot_likelihood rates hs' outs)) by ring.
      apply Rmult_le_compat_l; [apply likelihood_nonneg, P; now left|].
      apply IH; auto; try lia.
      * intros; apply P; now right.
      * intros i I. exact (E (S i) ltac:(lia)).
Qed.
