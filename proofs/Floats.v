(** The fast path in floats: where it answers, it is right. *)

From Coq Require Import Reals ZArith List Lra Lia.
Require Import Draws Exponent.
Open Scope R_scope.

Lemma quotient_pos : forall a n, (0 < a)%Z -> (0 < n)%Z -> 0 < IZR a / IZR n.
Proof. intros a n A N. apply Rdiv_lt_0_compat; now apply IZR_lt. Qed.

(** k <= -s ln U at the right end of an interval of U, and -s ln U < k + 1 at the left: then k is the floor in all of it. *)
Lemma floor_at_ends : forall num den a n k, (0 < num)%Z -> (0 < den)%Z -> (0 < a)%Z -> (0 < n)%Z ->
  IZR k <= - (IZR num / IZR den * ln (IZR (a + 1) / IZR n)) -> - (IZR num / IZR den * ln (IZR a / IZR n)) < IZR (k + 1) ->
  log_low num den k <= IZR a / IZR n /\ IZR (a + 1) / IZR n <= log_high num den k.
Proof.
  intros num den a n k N D A M Lo Hi. pose proof (quotient_pos a n A M) as P. pose proof (quotient_pos (a + 1) n ltac:(lia) M) as P'.
  pose proof (quotient_pos num den N D) as S. pose proof (quotient_pos den num D N) as S'.
  assert (Inv : IZR den / IZR num * (IZR num / IZR den) = 1) by (field; split; apply not_0_IZR; lia).
  unfold log_low, log_high. split.
  - rewrite <- (exp_ln _ P) at 1. apply exp_mono.
    apply (Rmult_lt_compat_l (IZR den / IZR num)) in Hi; [|exact S'].
    replace (IZR den / IZR num * - (IZR num / IZR den * ln (IZR a / IZR n)))
      with (- (IZR den / IZR num * (IZR num / IZR den)) * ln (IZR a / IZR n)) in Hi by ring. rewrite Inv in Hi.
    replace (IZR (k + 1) * IZR den / IZR num) with (IZR den / IZR num * IZR (k + 1)) by (unfold Rdiv; ring). lra.
  - rewrite <- (exp_ln _ P') at 1. apply exp_mono.
    apply (Rmult_le_compat_l (IZR den / IZR num)) in Lo; [|lra].
    replace (IZR den / IZR num * - (IZR num / IZR den * ln (IZR (a + 1) / IZR n)))
      with (- (IZR den / IZR num * (IZR num / IZR den)) * ln (IZR (a + 1) / IZR n)) in Lo by ring. rewrite Inv in Lo.
    replace (IZR k * IZR den / IZR num) with (IZR den / IZR num * IZR k) by (unfold Rdiv; ring). lra.
Qed.

(** If a number is known up to an error, and the floor of both of its bounds is k, then k is its floor. *)
Theorem one_floor : forall x error true k, Rabs (x - true) <= error -> IZR k <= x - error -> x + error < IZR (k + 1) ->
  IZR k <= true < IZR (k + 1).
Proof. intros x error true k H Lo Hi. unfold Rabs in H. destruct Rcase_abs in H; lra. Qed.

(** A float operation gives the true result y up to 2^-53 of it. *)
Definition u : R := / 2 ^ 53.
Definition rounded (y r : R) : Prop := Rabs (r - y) <= u * Rabs y.

Lemma rounded_pos : forall y r, 0 <= y -> rounded y r -> y * (1 - u) <= r <= y * (1 + u).
Proof. intros y r Y H. unfold rounded in H. rewrite (Rabs_right y) in H by lra. unfold Rabs in H. destruct Rcase_abs in H; lra. Qed.

Lemma rounded_neg : forall y r, y < 0 -> rounded y r -> r < 0.
Proof.
  intros y r Y H. unfold rounded in H. rewrite (Rabs_left y) in H by lra. unfold u in H. unfold Rabs in H. destruct Rcase_abs in H; lra.
Qed.

Lemma ln_above : forall x, 0 < x -> ln x <= x - 1.
Proof. intros x X. pose proof (exp_above (ln x)) as H. rewrite exp_ln in H by assumption. lra. Qed.

Lemma ln_below : forall x, 0 < x -> 1 - / x <= ln x.
Proof.
  intros x X. pose proof (ln_above (/ x) (Rinv_0_lt_compat _ X)) as H. rewrite ln_Rinv in H by assumption. lra.
Qed.

Lemma ln_quotient : forall x y, 0 < x -> 0 < y -> ln (x / y) = ln x - ln y.
Proof.
  intros x y X Y. unfold Rdiv. rewrite ln_mult; [|assumption|now apply Rinv_0_lt_compat]. rewrite ln_Rinv by assumption. ring.
Qed.

(** The steps in floats for a word w of n words and a scale num/den, and an answer k: the floor of both bounds, not below
    zero. No number overflows or underflows. The logarithm is taken to be right to 2^-50 of its result. *)
Definition float_answer (num den w n k : Z) : Prop :=
  (0 < w < n)%Z /\ (0 <= k)%Z /\
  exists f log scale x inverse sum product error low high : R,
    rounded (IZR w) f /\ f <= IZR n /\
    Rabs (log - ln (f / IZR n)) <= / 2 ^ 50 * Rabs log /\
    rounded (IZR num / IZR den) scale /\
    rounded (log * - scale) x /\
    rounded (2 / f) inverse /\ rounded (/ 2 ^ 51 + inverse) sum /\ rounded (scale * sum) product /\
    rounded (product + x * / 2 ^ 49) error /\
    rounded (x - error) low /\ rounded (x + error) high /\
    IZR k <= low /\ high < IZR (k + 1).

Theorem float_path_right : forall num den w n k, (0 < num)%Z -> (0 < den)%Z -> float_answer num den w n k ->
  log_low num den k <= IZR w / IZR n /\ IZR (w + 1) / IZR n <= log_high num den k.
Proof.
  intros num den w n k N D (W & K & f & log & scale & x & inverse & sum & product & error & low & high &
    F & Fn & Lg & Sc & X & In & Su & Pr & Er & Lo & Hi & Kl & Kh).
  assert (Wp : 1 <= IZR w) by (apply IZR_le; lia). assert (Np : 0 < IZR n) by (apply IZR_lt; lia).
  pose proof (quotient_pos num den N D) as S. set (s := IZR num / IZR den) in *.
  apply rounded_pos in F; [|lra]. apply rounded_pos in Sc; [|lra].
  assert (U : u = / 9007199254740992) by (unfold u; lra).
  assert (Fp : 0 < f) by (rewrite U in F; lra).
  set (l := - ln (f / IZR n)).
  assert (L0 : 0 <= l).
  { unfold l. pose proof (ln_above (f / IZR n) ltac:(apply Rdiv_lt_0_compat; lra)) as A.
    assert (f / IZR n <= 1); [|lra]. apply Rmult_le_reg_r with (IZR n); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_l, Rmult_1_r by lra. exact Fn. }
  replace (ln (f / IZR n)) with (- l) in Lg by (unfold l; ring).
  assert (Lg' : l * (1 - 9 * u) <= - log <= l * (1 + 9 * u))
    by (rewrite U; unfold Rabs in Lg; destruct (Rcase_abs (log - - l)) in Lg; destruct (Rcase_abs log) in Lg; lra).
  (* T = s l is the true value at f; x is near it *)
  assert (T0 : 0 <= s * l) by (apply Rmult_le_pos; lra).
  replace (log * - scale) with (- log * scale) in X by ring.
  assert (Y : (s * l) * ((1 - 9 * u) * (1 - u)) <= - log * scale <= (s * l) * ((1 + 9 * u) * (1 + u))).
  { replace (s * l * ((1 - 9 * u) * (1 - u))) with ((l * (1 - 9 * u)) * (s * (1 - u))) by ring.
    replace (s * l * ((1 + 9 * u) * (1 + u))) with ((l * (1 + 9 * u)) * (s * (1 + u))) by ring.
    assert (0 <= l * (1 - 9 * u)) by (apply Rmult_le_pos; rewrite ?U; lra).
    assert (0 <= s * (1 - u)) by (apply Rmult_le_pos; rewrite ?U; lra).
    split; apply Rmult_le_compat; lra. }
  apply rounded_pos in X; [|rewrite U in Y; lra].
  (* the inverse of w *)
  set (v := / IZR w). assert (V : 0 < v) by (apply Rinv_0_lt_compat; lra).
  assert (Sv : 0 < s * v) by now apply Rmult_lt_0_compat.
  assert (If : v * (1 - u) <= / f).
  { apply Rle_trans with (/ (IZR w * (1 + u))); [|apply Rinv_le_contravar; lra].
    rewrite Rinv_mult. apply Rmult_le_compat_l; [left; exact V|]. rewrite U. lra. }
  assert (Ip : 0 < / f) by now apply Rinv_0_lt_compat.
  apply rounded_pos in In; [|unfold Rdiv; lra]. unfold Rdiv in In.
  apply rounded_pos in Su; [|rewrite U in In; lra].
  assert (Sum : 3 * u + (19 / 10) * v <= sum) by (rewrite U in *; lra).
  assert (SS : s * (1 - u) * (3 * u + 19 / 10 * v) <= scale * sum).
  { apply Rmult_le_compat; [apply Rmult_le_pos; rewrite ?U; lra|rewrite U; lra|lra|exact Sum]. }
  assert (SP : 0 <= scale * sum) by (apply Rmult_le_pos; rewrite U in *; lra).
  apply rounded_pos in Pr; [|exact SP].
  assert (Prod : (28 / 10) * u * s + (18 / 10) * (s * v) <= product) by (rewrite U in *; lra).
  assert (X0 : 0 <= x) by (rewrite U in *; lra).
  apply rounded_pos in Er; [|rewrite U in *; lra].
  assert (Err : (27 / 10) * u * s + (17 / 10) * (s * v) + 15 * u * x <= error) by (rewrite U in *; lra).
  assert (Near : s * l - 12 * u * x <= x <= s * l + 12 * u * x) by (rewrite U in *; lra).
  (* both ends are near f *)
  assert (Wv : IZR w * v = 1) by (unfold v; field; lra).
  assert (Left : - (s * ln (IZR w / IZR n)) <= s * l + s * (101 / 100 * u)).
  { assert (B : ln (f / IZR n) - ln (IZR w / IZR n) <= 101 / 100 * u).
    { rewrite !ln_quotient by lra. replace (ln f - ln (IZR n) - (ln (IZR w) - ln (IZR n))) with (ln f - ln (IZR w)) by ring.
      rewrite <- ln_quotient by lra. apply Rle_trans with (f / IZR w - 1); [apply ln_above, Rdiv_lt_0_compat; lra|].
      assert (f / IZR w <= 1 + u); [|rewrite U in *; lra]. apply Rmult_le_reg_r with (IZR w); [lra|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. lra. }
    apply (Rmult_le_compat_l s) in B; [|lra]. unfold l. lra. }
  assert (Right : s * l - s * (101 / 100 * (v + u)) <= - (s * ln (IZR (w + 1) / IZR n))).
  { assert (B : ln (IZR (w + 1) / IZR n) - ln (f / IZR n) <= 101 / 100 * (v + u)).
    { assert (W1 : 0 < IZR (w + 1)) by (apply IZR_lt; lia).
      rewrite !ln_quotient by lra. replace (ln (IZR (w + 1)) - ln (IZR n) - (ln f - ln (IZR n))) with (ln (IZR (w + 1)) - ln f) by ring.
      rewrite <- ln_quotient by lra. apply Rle_trans with (IZR (w + 1) / f - 1); [apply ln_above, Rdiv_lt_0_compat; lra|].
      assert (IZR (w + 1) / f <= 1 + 101 / 100 * (v + u)); [|lra]. apply Rmult_le_reg_r with f; [lra|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. rewrite plus_IZR.
      apply Rle_trans with ((1 + 101 / 100 * (v + u)) * (IZR w * (1 - u))).
      - replace ((1 + 101 / 100 * (v + u)) * (IZR w * (1 - u)))
          with (IZR w * ((1 + 101 / 100 * u) * (1 - u)) + 101 / 100 * (1 - u) * (IZR w * v)) by ring. rewrite Wv, U. lra.
      - apply Rmult_le_compat_l; [rewrite U; lra|lra]. }
    apply (Rmult_le_compat_l s) in B; [|lra]. unfold l. lra. }
  assert (E0 : 0 <= error) by (rewrite U in *; lra).
  apply floor_at_ends; try lia; fold s.
  - assert (Kp : 0 <= IZR k) by now apply IZR_le.
    destruct (Rlt_dec (x - error) 0) as [Neg|Pos]; [pose proof (rounded_neg _ _ Neg Lo); lra|].
    apply rounded_pos in Lo; [|lra]. eapply Rle_trans; [|exact Right]. rewrite U in *. lra.
  - apply rounded_pos in Hi; [|lra]. eapply Rle_lt_trans; [exact Left|]. rewrite U in *. lra.
Qed.
