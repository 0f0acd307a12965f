(** Whether a uniform number is below e^-y: whole numbers that enclose powers of e, and two questions decided by them. *)

From Coq Require Import Reals ZArith List Lra Lia.
Require Import Draws.
Open Scope R_scope.

(** ** Bounds of e^-y *)

(** A number in [0, 1] in units of 1/one, squared again and again: rounded down, and up. *)
Fixpoint squares_down (m : nat) (one low : Z) : Z :=
  match m with O => low | S m' => squares_down m' one (low * low / one)%Z end.
Fixpoint squares_up (m : nat) (one high : Z) : Z :=
  match m with O => high | S m' => squares_up m' one (Z.min one (high * high / one + 1))%Z end.
Definition squares (m : nat) (one low high : Z) : Z * Z := (squares_down m one low, squares_up m one high).

(** Bounds of e^-(u/v), in units of 1/one and at most one/2^t apart: with x = u/(v 2^m) so small that 1 - x and 1/(1 + x)
    bound e^-x well, and m squares. *)
Definition rounds (u v t : Z) : Z := (t + 1 + 2 * (Z.log2 (u / v + 1) + 1))%Z.
Definition lower (u v t : Z) : Z * Z :=
  let m := rounds u v t in
  let one := Z.shiftl 1 (m + t + 3) in
  let whole := Z.shiftl v m in
  (squares_down (Z.to_nat m) one (Z.max 0 (one * (whole - u) / whole)), one)%Z.
Definition upper (u v t : Z) : Z * Z :=
  let m := rounds u v t in
  let one := Z.shiftl 1 (m + t + 3) in
  let whole := Z.shiftl v m in
  (squares_up (Z.to_nat m) one (Z.min one (one * whole / (whole + u) + 1)), one)%Z.
Definition enclosure (u v t : Z) : Z * Z * Z := (fst (lower u v t), fst (upper u v t), snd (lower u v t)).

Lemma squares_sound : forall m one low high z, (0 < one)%Z -> (0 <= low)%Z -> 0 <= z ->
  IZR low <= exp (- z) * IZR one -> exp (- z) * IZR one <= IZR high ->
  IZR (fst (squares m one low high)) <= exp (- (2 ^ m * z)) * IZR one /\
  exp (- (2 ^ m * z)) * IZR one <= IZR (snd (squares m one low high)).
Proof.
  induction m as [|m IH]; intros one low high z O L Z0 Lo Hi; unfold squares in *; cbn [squares_down squares_up fst snd pow] in *; [rewrite Rmult_1_l; now split|].
  replace (2 * 2 ^ m * z) with (2 ^ m * (2 * z)) by ring.
  assert (P : 0 < IZR one) by now apply IZR_lt. assert (L' : 0 <= IZR low) by now apply IZR_le.
  assert (Sq : exp (- (2 * z)) * IZR one = (exp (- z) * IZR one) * (exp (- z) * IZR one) / IZR one).
  { replace (- (2 * z)) with (- z + - z) by ring. rewrite exp_plus. field. lra. }
  assert (X : 0 < exp (- z) * IZR one) by (apply Rmult_lt_0_compat; [apply exp_pos|assumption]).
  apply IH; [assumption|apply Z.div_pos; nia|lra| |].
  - rewrite Sq. apply Rmult_le_reg_r with (IZR one); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    rewrite <- mult_IZR. apply Rle_trans with (IZR (low * low)).
    + apply IZR_le. rewrite Z.mul_comm. apply Z.mul_div_le. lia.
    + rewrite mult_IZR. apply Rmult_le_compat; lra.
  - apply Z.min_case_strong; intros _.
    + rewrite <- (Rmult_1_l (IZR one)) at 2. apply Rmult_le_compat_r; [lra|]. rewrite <- exp_0.
      destruct (Req_dec z 0) as [->|N]; [right; f_equal; ring|left; apply exp_increasing; lra].
    + rewrite Sq. apply Rmult_le_reg_r with (IZR one); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
      rewrite <- mult_IZR. apply Rle_trans with (IZR (high * high)).
      * rewrite mult_IZR. apply Rmult_le_compat; lra.
      * apply IZR_le. pose proof (Z.mul_succ_div_gt (high * high) one ltac:(lia)). lia.
Qed.

Lemma squares_width : forall m one low high, (0 < one)%Z -> (0 <= low <= high)%Z -> (high <= one)%Z ->
  let '(l, h) := squares m one low high in (h - l + 2 <= 2 ^ Z.of_nat m * (high - low + 2))%Z.
Proof.
  induction m as [|m IH]; intros one low high O L H; unfold squares in *; cbn [squares_down squares_up]; [change (2 ^ Z.of_nat 0)%Z with 1%Z; lia|].
  set (l2 := (low * low / one)%Z). set (h2 := (high * high / one)%Z).
  assert (A : (one * l2 <= low * low < one * (l2 + 1))%Z).
  { unfold l2. split; [apply Z.mul_div_le; lia|]. pose proof (Z.mul_succ_div_gt (low * low) one ltac:(lia)). lia. }
  assert (B : (one * h2 <= high * high < one * (h2 + 1))%Z).
  { unfold h2. split; [apply Z.mul_div_le; lia|]. pose proof (Z.mul_succ_div_gt (high * high) one ltac:(lia)). lia. }
  assert (l2 <= h2)%Z by (apply Z.div_le_mono; nia). assert (0 <= l2)%Z by (apply Z.div_pos; nia).
  assert (l2 <= one)%Z by (apply Z.div_le_upper_bound; nia).
  assert (h2 - l2 - 1 < 2 * (high - low))%Z by nia.
  specialize (IH one l2 (Z.min one (h2 + 1)) O ltac:(lia) ltac:(lia)).
  fold l2 h2. set (l := squares_down m one l2) in *. set (h := squares_up m one (Z.min one (h2 + 1))) in *. rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia.
  pose proof (Z.pow_pos_nonneg 2 (Z.of_nat m) ltac:(lia) ltac:(lia)). nia.
Qed.

Lemma exp_above : forall z, 1 + z <= exp z.
Proof. intros z. destruct (Req_dec z 0) as [->|N]; [rewrite exp_0; lra|left; now apply exp_ineq1]. Qed.

Lemma gap : forall one w u p q, (0 < w)%Z -> (0 <= u)%Z -> (one * (w - u) < w * (p + 1))%Z -> ((w + u) * q <= one * w)%Z ->
  (one * (u * u) <= 4 * (w * w))%Z -> (q - p <= 4)%Z.
Proof.
  intros one w u p q W U P Q S. destruct (Z_le_gt_dec (q - p) 4) as [|G]; [assumption|exfalso].
  assert (H1 : ((w + u) * (p + 5) <= (w + u) * q)%Z) by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (H2 : (w * ((w + u) * (p + 5)) <= w * (one * w))%Z) by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (H3 : ((w + u) * (one * (w - u)) < (w + u) * (w * (p + 1)))%Z) by (apply Z.mul_lt_mono_pos_l; lia).
  pose proof (Z.mul_nonneg_nonneg w u ltac:(lia) U). lia.
Qed.

Theorem enclosure_right : forall u v t, (0 <= u)%Z -> (0 < v)%Z -> (0 <= t)%Z ->
  let '(low, high, one) := enclosure u v t in
  (0 < one)%Z /\ IZR low <= exp (- (IZR u / IZR v)) * IZR one <= IZR high /\ ((high - low) * 2 ^ t <= one)%Z.
Proof.
  intros u v t U V T. unfold enclosure, lower, upper, rounds. cbn [fst snd]. set (b := (Z.log2 (u / v + 1) + 1)%Z). set (m := (t + 1 + 2 * b)%Z).
  assert (Q : (0 <= u / v)%Z) by (apply Z.div_pos; lia).
  assert (Bp : (1 <= b)%Z) by (unfold b; pose proof (Z.log2_nonneg (u / v + 1)); lia).
  rewrite !Z.shiftl_mul_pow2 by lia. rewrite Z.mul_1_l. set (one := (2 ^ (m + t + 3))%Z). set (w := (v * 2 ^ m)%Z).
  assert (M : (0 < 2 ^ m)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (O : (0 < one)%Z) by (apply Z.pow_pos_nonneg; lia).
  assert (Y : (u < v * 2 ^ b)%Z).
  { unfold b. pose proof (Z.log2_spec (u / v + 1) ltac:(lia)) as [_ S]. rewrite <- Z.add_1_r in S.
    pose proof (Z.mul_succ_div_gt u v ltac:(lia)). nia. }
  assert (Yw : (u <= w)%Z).
  { unfold w. assert (2 ^ b <= 2 ^ m)%Z by (apply Z.pow_le_mono_r; lia). nia. }
  assert (W : (0 < w)%Z) by (unfold w; nia).
  set (lo := Z.max 0 (one * (w - u) / w)). set (hi := Z.min one (one * w / (w + u) + 1)).
  assert (A : (w * (one * (w - u) / w) <= one * (w - u) < w * (one * (w - u) / w + 1))%Z).
  { split; [apply Z.mul_div_le; lia|]. pose proof (Z.mul_succ_div_gt (one * (w - u)) w ltac:(lia)). lia. }
  assert (B : ((w + u) * (one * w / (w + u)) <= one * w < (w + u) * (one * w / (w + u) + 1))%Z).
  { split; [apply Z.mul_div_le; lia|]. pose proof (Z.mul_succ_div_gt (one * w) (w + u) ltac:(lia)). lia. }
  set (p := (one * (w - u) / w)%Z) in *. set (q := (one * w / (w + u))%Z) in *.
  assert (P0 : (0 <= p)%Z) by (apply Z.div_pos; [apply Z.mul_nonneg_nonneg|]; lia).
  assert (P1 : (p <= one)%Z).
  { apply Z.div_le_upper_bound; [lia|]. rewrite (Z.mul_comm w one). apply Z.mul_le_mono_nonneg_l; lia. }
  assert (Small : (one * (u * u) <= 4 * (w * w))%Z).
  { assert (E2 : (one * (2 ^ b * 2 ^ b) = 4 * (2 ^ m * 2 ^ m))%Z).
    { unfold one. change 4%Z with (2 ^ 2)%Z. rewrite <- !Z.pow_add_r by lia. f_equal. unfold m. lia. }
    unfold w. assert (u * u <= (v * 2 ^ b) * (v * 2 ^ b))%Z by (apply Z.mul_le_mono_nonneg; lia).
    apply Z.le_trans with (one * ((v * 2 ^ b) * (v * 2 ^ b)))%Z; [apply Z.mul_le_mono_nonneg_l; lia|].
    replace (one * (v * 2 ^ b * (v * 2 ^ b)))%Z with (v * v * (one * (2 ^ b * 2 ^ b)))%Z by ring. rewrite E2. lia. }
  pose proof (gap one w u p q W U (proj2 A) (proj1 B) Small) as Gap.
  set (z := IZR u / IZR w). assert (Wr : 0 < IZR w) by now apply IZR_lt. assert (Ur : 0 <= IZR u) by now apply IZR_le.
  assert (Or : 0 < IZR one) by now apply IZR_lt.
  assert (Z0 : 0 <= z) by (apply Rmult_le_pos; [assumption|left; now apply Rinv_0_lt_compat]).
  assert (Lo : IZR lo <= exp (- z) * IZR one).
  { unfold lo. rewrite Z.max_r by assumption. apply Rle_trans with ((1 - z) * IZR one).
    - unfold z. apply Rmult_le_reg_r with (IZR w); [assumption|].
      replace ((1 - IZR u / IZR w) * IZR one * IZR w) with (IZR one * (IZR w - IZR u)) by (field; lra).
      rewrite <- minus_IZR, <- !mult_IZR. apply IZR_le. lia.
    - apply Rmult_le_compat_r; [lra|]. pose proof (exp_above (- z)). lra. }
  assert (Hi : exp (- z) * IZR one <= IZR hi).
  { unfold hi. apply Z.min_case_strong; intros _.
    - rewrite <- (Rmult_1_l (IZR one)) at 2. apply Rmult_le_compat_r; [lra|]. rewrite <- exp_0.
      destruct (Req_dec z 0) as [->|N]; [right; f_equal; ring|left; apply exp_increasing; lra].
    - rewrite exp_Ropp. pose proof (exp_above z) as X. assert (Sz : 0 < 1 + z) by lra.
      apply Rle_trans with (/ (1 + z) * IZR one).
      + apply Rmult_le_compat_r; [lra|]. now apply Rinv_le_contravar.
      + unfold z. apply Rmult_le_reg_r with (IZR w + IZR u); [lra|].
        replace (/ (1 + IZR u / IZR w) * IZR one * (IZR w + IZR u)) with (IZR one * IZR w) by (field; lra).
        rewrite <- plus_IZR, <- !mult_IZR. apply IZR_le. lia. }
  pose proof (squares_sound (Z.to_nat m) one lo hi z O ltac:(lia) Z0 Lo Hi) as S.
  assert (LH : (lo <= hi)%Z) by (apply le_IZR; lra).
  pose proof (squares_width (Z.to_nat m) one lo hi O ltac:(lia) ltac:(lia)) as Wd.
  unfold squares in S, Wd. cbn [fst snd] in S. set (l := squares_down (Z.to_nat m) one lo) in *. set (h := squares_up (Z.to_nat m) one hi) in *.
  replace (2 ^ Z.to_nat m * z) with (IZR u / IZR v) in S.
  - rewrite Z2Nat.id in Wd by lia. split; [assumption|]. split; [exact S|].
    assert (hi - lo + 2 <= 8)%Z by lia.
    assert (Eo : (one = 2 ^ m * 2 ^ t * 8)%Z) by (unfold one; rewrite !Z.pow_add_r by lia; reflexivity).
    assert (Tp : (0 <= 2 ^ t)%Z) by (apply Z.pow_nonneg; lia).
    assert (W8 : (2 ^ m * (hi - lo + 2) <= 2 ^ m * 8)%Z) by (apply Z.mul_le_mono_nonneg_l; lia).
    rewrite Eo. apply Z.le_trans with ((2 ^ m * 8) * 2 ^ t)%Z; [apply Z.mul_le_mono_nonneg_r; lia|lia].
  - unfold z, w. rewrite mult_IZR. rewrite pow_IZR. rewrite Z2Nat.id by lia.
    assert (0 < IZR (2 ^ m)) by now apply IZR_lt. assert (0 < IZR v) by now apply IZR_lt. field. lra.
Qed.

(** ** A fraction against e^-(u/v) *)

Section Guarded.

(** How many bits more than the fraction has. *)
Variable guard : Z.
Hypothesis guard_pos : (1 <= guard)%Z.

Definition surely_at_most (a n u v : Z) : bool :=
  let '(low, one) := lower u v (Z.log2 n + guard) in (a * one <=? low * n)%Z.
Definition surely_at_least (a n u v : Z) : bool :=
  let '(high, one) := upper u v (Z.log2 n + guard) in (high * n <=? a * one)%Z.

Lemma at_most_is : forall a n u v,
  surely_at_most a n u v = let '(low, _, one) := enclosure u v (Z.log2 n + guard) in (a * one <=? low * n)%Z.
Proof. reflexivity. Qed.

Lemma at_least_is : forall a n u v,
  surely_at_least a n u v = let '(_, high, one) := enclosure u v (Z.log2 n + guard) in (high * n <=? a * one)%Z.
Proof. reflexivity. Qed.

Lemma fine_enough : forall n, (0 < n)%Z -> (n <= 2 ^ (Z.log2 n + guard))%Z.
Proof.
  intros n N. pose proof (Z.log2_spec n N) as [_ S]. pose proof (Z.log2_nonneg n).
  assert (2 ^ Z.succ (Z.log2 n) <= 2 ^ (Z.log2 n + guard))%Z by (apply Z.pow_le_mono_r; lia). lia.
Qed.

Lemma at_most_right : forall a n u v, (0 < n)%Z -> (0 <= u)%Z -> (0 < v)%Z ->
  surely_at_most a n u v = true -> IZR a / IZR n <= exp (- (IZR u / IZR v)).
Proof.
  intros a n u v N U V. rewrite at_most_is. pose proof (Z.log2_nonneg n).
  pose proof (enclosure_right u v (Z.log2 n + guard) U V ltac:(lia)) as S.
  destruct (enclosure u v (Z.log2 n + guard)) as [[l h] one]. destruct S as (O & [Lo _] & _). intros C. apply Z.leb_le, IZR_le in C.
  rewrite !mult_IZR in C. apply IZR_lt in N, O. apply Rmult_le_reg_r with (IZR one * IZR n); [nra|].
  replace (IZR a / IZR n * (IZR one * IZR n)) with (IZR a * IZR one) by (field; lra). nra.
Qed.

Lemma at_least_right : forall a n u v, (0 < n)%Z -> (0 <= u)%Z -> (0 < v)%Z ->
  surely_at_least a n u v = true -> exp (- (IZR u / IZR v)) <= IZR a / IZR n.
Proof.
  intros a n u v N U V. rewrite at_least_is. pose proof (Z.log2_nonneg n).
  pose proof (enclosure_right u v (Z.log2 n + guard) U V ltac:(lia)) as S.
  destruct (enclosure u v (Z.log2 n + guard)) as [[l h] one]. destruct S as (O & [_ Hi] & _). intros C. apply Z.leb_le, IZR_le in C.
  rewrite !mult_IZR in C. apply IZR_lt in N, O. apply Rmult_le_reg_r with (IZR one * IZR n); [nra|].
  replace (IZR a / IZR n * (IZR one * IZR n)) with (IZR a * IZR one) by (field; lra). nra.
Qed.

Lemma at_most_found : forall a n u v, (0 < n)%Z -> (0 <= u)%Z -> (0 < v)%Z ->
  IZR a / IZR n + 1 / IZR n <= exp (- (IZR u / IZR v)) -> surely_at_most a n u v = true.
Proof.
  intros a n u v N U V X. rewrite at_most_is. pose proof (Z.log2_nonneg n). pose proof (fine_enough n N) as F.
  pose proof (enclosure_right u v (Z.log2 n + guard) U V ltac:(lia)) as S.
  destruct (enclosure u v (Z.log2 n + guard)) as [[l h] one]. destruct S as (O & [Lo Hi] & W). apply Z.leb_le, le_IZR.
  assert (W' : ((h - l) * n <= one)%Z) by (assert (l <= h)%Z by (apply le_IZR; lra); nia).
  apply IZR_le in W'. rewrite mult_IZR, minus_IZR in W'. rewrite !mult_IZR. apply IZR_lt in N, O.
  assert (IZR a * IZR one + IZR one <= exp (- (IZR u / IZR v)) * IZR one * IZR n).
  { replace (IZR a * IZR one + IZR one) with ((IZR a / IZR n + 1 / IZR n) * (IZR one * IZR n)) by (field; lra).
    replace (exp (- (IZR u / IZR v)) * IZR one * IZR n) with (exp (- (IZR u / IZR v)) * (IZR one * IZR n)) by ring.
    apply Rmult_le_compat_r; [nra|assumption]. }
  nra.
Qed.

Lemma at_least_found : forall a n u v, (0 < n)%Z -> (0 <= u)%Z -> (0 < v)%Z ->
  exp (- (IZR u / IZR v)) + 1 / IZR n <= IZR a / IZR n -> surely_at_least a n u v = true.
Proof.
  intros a n u v N U V X. rewrite at_least_is. pose proof (Z.log2_nonneg n). pose proof (fine_enough n N) as F.
  pose proof (enclosure_right u v (Z.log2 n + guard) U V ltac:(lia)) as S.
  destruct (enclosure u v (Z.log2 n + guard)) as [[l h] one]. destruct S as (O & [Lo Hi] & W). apply Z.leb_le, le_IZR.
  assert (W' : ((h - l) * n <= one)%Z) by (assert (l <= h)%Z by (apply le_IZR; lra); nia).
  apply IZR_le in W'. rewrite mult_IZR, minus_IZR in W'. rewrite !mult_IZR. apply IZR_lt in N, O.
  assert (exp (- (IZR u / IZR v)) * IZR one * IZR n + IZR one <= IZR a * IZR one).
  { replace (IZR a * IZR one) with ((IZR a / IZR n) * (IZR one * IZR n)) by (field; lra).
    replace (exp (- (IZR u / IZR v)) * IZR one * IZR n + IZR one) with ((exp (- (IZR u / IZR v)) + 1 / IZR n) * (IZR one * IZR n)) by (field; lra).
    apply Rmult_le_compat_r; [nra|assumption]. }
  nra.
Qed.

(** ** floor(-s ln U) for s = num/den *)

(** The largest k of 2^steps from low on with f k, if f holds up to some k and not beyond. *)
Fixpoint search (f : Z -> bool) (steps : nat) (low : Z) : Z :=
  match steps with
  | O => low
  | S i => let middle := (low + 2 ^ Z.of_nat i)%Z in search f i (if f middle then middle else low)
  end.

Lemma search_right : forall f v steps low, (forall k, (0 <= k <= v)%Z -> f k = true) -> (forall k, (v < k)%Z -> f k = false) ->
  (0 <= low <= v)%Z -> (v < low + 2 ^ Z.of_nat steps)%Z -> search f steps low = v.
Proof.
  intros f v. induction steps as [|i IH]; intros low T F L H; cbn [search]; [change (2 ^ Z.of_nat 0)%Z with 1%Z in H; lia|].
  rewrite Nat2Z.inj_succ, Z.pow_succ_r in H by lia. pose proof (Z.pow_pos_nonneg 2 (Z.of_nat i) ltac:(lia) ltac:(lia)).
  destruct (Z_le_gt_dec (low + 2 ^ Z.of_nat i) v) as [Y|N].
  - rewrite T by lia. apply IH; auto; lia.
  - rewrite F by lia. apply IH; auto; lia.
Qed.

Variables num den : Z.
Hypothesis num_pos : (0 < num)%Z.
Hypothesis den_pos : (0 < den)%Z.

Definition most (n : Z) : Z := (num * (Z.log2 n + 1) / den + 1)%Z.
Definition decide_log (a n : Z) : option Z :=
  if (a <=? 0)%Z then None else
  let k := search (fun j => surely_at_most (a + 1) n (j * den) num) (Z.to_nat (Z.log2 (most n) + 1)) 0 in
  if surely_at_most (a + 1) n (k * den) num then
    if surely_at_least a n ((k + 1) * den) num then Some k else None
  else None.

(** floor(-s ln U) = k exactly for U in (e^-(k+1)/s, e^-k/s]. *)
Definition log_low (k : Z) : R := exp (- (IZR (k + 1) * IZR den / IZR num)).
Definition log_high (k : Z) : R := exp (- (IZR k * IZR den / IZR num)).

Lemma search_nonneg : forall f steps low, (0 <= low)%Z -> (0 <= search f steps low)%Z.
Proof.
  intros f. induction steps as [|i IH]; intros low L; cbn [search]; [assumption|]. apply IH.
  destruct (f (low + 2 ^ Z.of_nat i)%Z); [pose proof (Z.pow_nonneg 2 (Z.of_nat i) ltac:(lia))|]; lia.
Qed.

Lemma exp_mono : forall x y, x <= y -> exp x <= exp y.
Proof. intros x y [H| ->]; [left; now apply exp_increasing|now right]. Qed.

Lemma scaled : forall j k, (j <= k)%Z -> IZR j * IZR den / IZR num <= IZR k * IZR den / IZR num.
Proof.
  intros j k H. apply IZR_le in H. pose proof (IZR_lt _ _ num_pos). pose proof (IZR_lt _ _ den_pos).
  unfold Rdiv. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|]. apply Rmult_le_compat_r; lra.
Qed.

Lemma decide_log_sound : sound Z decide_log log_low log_high.
Proof.
  intros a n v H. unfold decide_log. destruct (a <=? 0)%Z; [discriminate|].
  set (k := search _ _ _). assert (K : (0 <= k)%Z) by (apply search_nonneg; lia).
  destruct (surely_at_most (a + 1) n (k * den) num) eqn:A; [|discriminate].
  destruct (surely_at_least a n ((k + 1) * den) num) eqn:B; [|discriminate]. intros Eq. injection Eq as <-.
  unfold log_low, log_high. rewrite <- !mult_IZR. split.
  - apply at_least_right; [lia|nia|assumption|assumption].
  - apply at_most_right; [lia|nia|assumption|assumption].
Qed.

Lemma log_apart : apart Z log_low log_high.
Proof.
  intros v v' N. unfold log_low, log_high. destruct (Z_lt_le_dec v v') as [L|L]; [right|left];
    apply exp_mono, Ropp_le_contravar, scaled; lia.
Qed.

Lemma log2_bound : forall n, (0 < n)%Z -> exp (- IZR (Z.log2 n + 1)) <= 1 / IZR n.
Proof.
  intros n N. pose proof (Z.log2_spec n N) as [_ S]. pose proof (Z.log2_nonneg n).
  rewrite exp_Ropp. unfold Rdiv. rewrite Rmult_1_l. assert (0 < IZR n) by now apply IZR_lt. apply Rinv_le_contravar; [assumption|].
  apply Rle_trans with (IZR (2 ^ (Z.log2 n + 1))); [apply IZR_le; rewrite Z.add_1_r; lia|].
  rewrite <- (Z2Nat.id (Z.log2 n + 1)) by lia. generalize (Z.to_nat (Z.log2 n + 1)). clear. intros m.
  rewrite <- pow_IZR. rewrite <- INR_IZR_INZ. induction m as [|m IH]; [cbn; rewrite exp_0; lra|].
  rewrite S_INR, exp_plus. cbn [pow]. pose proof (exp_above 1). assert (0 < 2 ^ m) by (apply pow_lt; lra).
  rewrite (Rmult_comm (exp (INR m))). apply Rmult_le_compat; lra.
Qed.

Lemma decide_log_complete : forall v, (0 <= v)%Z -> complete Z decide_log log_low log_high v.
Proof.
  intros v V a n H L U. assert (Nr : 0 < IZR n) by (apply IZR_lt; lia). pose proof (width_pos n ltac:(lia)) as W.
  unfold decide_log. assert (Lp : 0 < log_low v) by apply exp_pos.
  assert (A0 : (0 < a)%Z).
  { apply lt_IZR. apply Rmult_lt_reg_r with (/ IZR n); [now apply Rinv_0_lt_compat|].
    change (0 * / IZR n < IZR a / IZR n). rewrite Rmult_0_l. lra. }
  destruct (Z.leb_spec a 0) as [|_]; [lia|].
  set (f := fun j => surely_at_most (a + 1) n (j * den) num).
  assert (T : forall k, (0 <= k <= v)%Z -> f k = true).
  { intros k K. apply at_most_found; [lia|nia|assumption|]. rewrite mult_IZR.
    apply Rle_trans with (log_high v); [lra|]. apply exp_mono, Ropp_le_contravar, scaled. lia. }
  assert (F : forall k, (v < k)%Z -> f k = false).
  { intros k K. destruct (f k) eqn:D; [|reflexivity]. exfalso. unfold f in D.
    apply at_most_right in D; [|lia|nia|assumption]. rewrite mult_IZR in D.
    assert (exp (- (IZR k * IZR den / IZR num)) <= log_low v) by (apply exp_mono, Ropp_le_contravar, scaled; lia).
    pose proof (ends a n ltac:(lia)). lra. }
  assert (M : (v < most n)%Z).
  { assert (X : IZR v * IZR den / IZR num < IZR (Z.log2 n + 1)).
    { apply Rnot_le_lt. intros X. apply Ropp_le_contravar, exp_mono in X. pose proof (log2_bound n ltac:(lia)).
      fold (log_high v) in X. pose proof (ends a n ltac:(lia)).
      assert (0 < IZR a / IZR n) by lra. lra. }
    assert (IZR (v * den) < IZR (num * (Z.log2 n + 1))).
    { rewrite !mult_IZR. pose proof (IZR_lt _ _ num_pos). apply Rmult_lt_reg_r with (/ IZR num); [now apply Rinv_0_lt_compat|].
      replace (IZR num * IZR (Z.log2 n + 1) * / IZR num) with (IZR (Z.log2 n + 1)) by (field; lra). exact X. }
    apply lt_IZR in H0. unfold most. assert (v <= num * (Z.log2 n + 1) / den)%Z by (apply Z.div_le_lower_bound; lia). lia. }
  rewrite (search_right f v); [| assumption | assumption | lia |].
  - fold (f v). rewrite T by lia. rewrite at_least_found; [reflexivity|lia|nia|assumption|].
    rewrite mult_IZR. unfold log_low in L. lra.
  - assert (0 < most n)%Z by lia. pose proof (Z.log2_spec (most n) H0) as [_ S]. pose proof (Z.log2_nonneg (most n)).
    rewrite Z2Nat.id by lia. rewrite Z.add_1_r. lia.
Qed.

(** ** U < e^-(r/s), for a digit r *)

(** A coin below 1 - most/s is below e^-(r/s) for every r up to [digits]. *)
Definition decide_below (digits r a n : Z) : option bool :=
  if ((a + 1) * num <=? n * (num - digits * den))%Z then Some true
  else if surely_at_most (a + 1) n (r * den) num then Some true
  else if surely_at_least a n (r * den) num then Some false
  else None.

Definition below_low (r : Z) (accepted : bool) : R := if accepted then 0 else exp (- (IZR r * IZR den / IZR num)).
Definition below_high (r : Z) (accepted : bool) : R := if accepted then exp (- (IZR r * IZR den / IZR num)) else 1.

Lemma decide_below_sound : forall digits r, (0 <= r <= digits)%Z -> sound bool (decide_below digits r) (below_low r) (below_high r).
Proof.
  intros digits r D a n v H. unfold decide_below. assert (Nr : 0 < IZR n) by (apply IZR_lt; lia).
  assert (A0 : 0 <= IZR a / IZR n) by (apply Rmult_le_pos; [apply IZR_le; lia|left; now apply Rinv_0_lt_compat]).
  assert (A1 : IZR (a + 1) / IZR n <= 1).
  { apply Rmult_le_reg_r with (IZR n); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rmult_1_l by lra. apply IZR_le. lia. }
  destruct (Z.leb_spec ((a + 1) * num) (n * (num - digits * den))) as [Sure|_].
  - intros Eq. injection Eq as <-. cbn [below_low below_high]. split; [assumption|].
    apply Rle_trans with (1 - IZR r * IZR den / IZR num); [|pose proof (exp_above (- (IZR r * IZR den / IZR num))); lra].
    pose proof (IZR_lt _ _ num_pos). apply Rmult_le_reg_r with (IZR n * IZR num); [nra|].
    replace (IZR (a + 1) / IZR n * (IZR n * IZR num)) with (IZR (a + 1) * IZR num) by (field; lra).
    replace ((1 - IZR r * IZR den / IZR num) * (IZR n * IZR num)) with (IZR n * (IZR num - IZR r * IZR den)) by (field; lra).
    rewrite <- !mult_IZR, <- minus_IZR, <- mult_IZR. apply IZR_le.
    eapply Z.le_trans; [exact Sure|]. apply Z.mul_le_mono_nonneg_l; [lia|].
    assert (r * den <= digits * den)%Z by (apply Z.mul_le_mono_nonneg_r; lia). lia.
  - destruct (surely_at_most (a + 1) n (r * den) num) eqn:A.
    + intros Eq. injection Eq as <-. cbn [below_low below_high]. split; [assumption|]. rewrite <- mult_IZR.
      apply at_most_right; [lia|nia|assumption|assumption].
    + destruct (surely_at_least a n (r * den) num) eqn:B; [|discriminate].
      intros Eq. injection Eq as <-. cbn [below_low below_high]. split; [|assumption]. rewrite <- mult_IZR.
      apply at_least_right; [lia|nia|assumption|assumption].
Qed.

Lemma below_apart : forall r, apart bool (below_low r) (below_high r).
Proof. intros r [] [] N; try contradiction; cbn; [left|right]; lra. Qed.

Lemma decide_below_complete : forall digits r v, (0 <= r <= digits)%Z -> complete bool (decide_below digits r) (below_low r) (below_high r) v.
Proof.
  intros digits r v D a n H L U. assert (Nr : 0 < IZR n) by (apply IZR_lt; lia). pose proof (width_pos n ltac:(lia)) as W.
  pose proof (ends a n ltac:(lia)) as En.
  destruct (decide_below digits r a n) as [v'|] eqn:Q.
  - destruct (Bool.bool_dec v' v) as [->|N]; [reflexivity|]. exfalso.
    pose proof (decide_below_sound digits r D a n v' H Q) as [L' U']. destruct (below_apart r v' v N); lra.
  - exfalso. unfold decide_below in Q. destruct ((a + 1) * num <=? n * (num - digits * den))%Z; [discriminate|].
    destruct (surely_at_most (a + 1) n (r * den) num) eqn:A; [discriminate|].
    destruct (surely_at_least a n (r * den) num) eqn:B; [discriminate|]. destruct v; cbn [below_low below_high] in *.
    + rewrite at_most_found in A; [discriminate|lia|nia|assumption|]. rewrite mult_IZR. lra.
    + rewrite at_least_found in B; [discriminate|lia|nia|assumption|]. rewrite mult_IZR. lra.
Qed.

End Guarded.
