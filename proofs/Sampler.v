(** The sampler of discrete Laplace noise as a program over random words, and its law. *)

From Coq Require Import Reals ZArith List Lra Lia.
Require Import Laplace Mass Draws Exponent Floats.
Import ListNotations.
Open Scope R_scope.

Definition lists := list_eq_dec Z.eq_dec.

(** ** The program *)

Fixpoint zip {A B C} (f : A -> B -> C) (l : list A) (l' : list B) : list C :=
  match l, l' with x :: t, y :: t' => f x y :: zip f t t' | _, _ => [] end.

(** Digits that were accepted, and in the places of the others those of later rounds. *)
Fixpoint merge (outs : list (option Z)) (more : list Z) : list Z :=
  match outs, more with
  | [], _ => []
  | Some d :: outs', _ => d :: merge outs' more
  | None :: outs', x :: more' => x :: merge outs' more'
  | None :: outs', [] => 0%Z :: merge outs' []
  end.
Fixpoint unset (outs : list (option Z)) : nat :=
  match outs with [] => O | Some _ :: outs' => unset outs' | None :: outs' => S (unset outs') end.

Section Program.

(** A word is a digit and a coin: base = digits * coins. *)
Variables base digits coins : Z.
(** What is known of floor(-s/digits ln U), and of U < e^-(r/s), for U in [a/n, (a+1)/n]. *)
Variable dlog : Z -> Z -> option Z.
Variable dbelow : Z -> Z -> Z -> option bool.

Definition logs (fuel m : nat) : prog (list Z) := bind (words m) (each (fun x => refine base dlog fuel x base)).
Definition coin (fuel : nat) (x : Z) : prog (option Z) :=
  let r := (x / coins)%Z in
  bind (refine base (dbelow r) fuel (x mod coins) coins) (fun accepted => Ret (if accepted then Some r else None)).
Fixpoint lows (tries fuel m : nat) : prog (list Z) :=
  match m, tries with
  | O, _ => Ret []
  | S _, O => Fail
  | S _, S tries' => bind (bind (words m) (each (coin fuel))) (fun outs =>
      bind (lows tries' fuel (unset outs)) (fun more => Ret (merge outs more)))
  end.
Definition geometric (fuel m : nat) : prog (list Z) :=
  bind (logs fuel m) (fun highs =>
    bind (if (digits =? 1)%Z then Ret (repeat 0%Z m) else lows fuel fuel m) (fun ls =>
      Ret (zip (fun high low => high * digits + low)%Z highs ls))).
Definition noise (fuel m : nat) : prog (list Z) :=
  bind (geometric fuel (m + m)) (fun gs => Ret (zip Z.sub (firstn m gs) (skipn m gs))).
Definition add_noise (fuel : nat) (values : list Z) : prog (list Z) :=
  bind (noise fuel (length values)) (fun zs => Ret (zip Z.add values zs)).

End Program.

(** ** Lower limits *)

Definition reaches (u : nat -> R) (v : R) : Prop := forall e, 0 < e -> exists N, forall n, (N <= n)%nat -> v - e < u n.

Lemma reaches_le : forall u w v, reaches u v -> (forall n, u n <= w n) -> reaches w v.
Proof. intros u w v H L e P. destruct (H e P) as [N Q]. exists N. intros n Hn. specialize (Q n Hn). specialize (L n). lra. Qed.

Lemma reaches_const : forall v, reaches (fun _ => v) v.
Proof. intros v e P. exists O. intros. lra. Qed.

Lemma reaches_plus : forall u w a b, reaches u a -> reaches w b -> reaches (fun n => u n + w n) (a + b).
Proof.
  intros u w a b H H' e P. destruct (H (e / 2) ltac:(lra)) as [N Q]. destruct (H' (e / 2) ltac:(lra)) as [N' Q'].
  exists (Nat.max N N'). intros n Hn. specialize (Q n ltac:(lia)). specialize (Q' n ltac:(lia)). lra.
Qed.

Lemma reaches_mult : forall u w a b, 0 <= a -> 0 <= b -> (forall n, 0 <= u n) -> (forall n, 0 <= w n) ->
  reaches u a -> reaches w b -> reaches (fun n => u n * w n) (a * b).
Proof.
  intros u w a b A B U W H H' e P. assert (S : 0 < a + b + 1) by lra.
  assert (D : 0 < e / (a + b + 1)) by (apply Rdiv_lt_0_compat; lra).
  destruct (H _ D) as [N Q]. destruct (H' _ D) as [N' Q']. set (d := e / (a + b + 1)) in *.
  assert (Ed : d * (a + b) + d = e) by (unfold d; field; lra).
  exists (Nat.max N N'). intros n Hn. specialize (Q n ltac:(lia)). specialize (Q' n ltac:(lia)).
  specialize (U n). specialize (W n).
  destruct (Rle_dec a d) as [X|X].
  - assert (a * b <= d * b) by (apply Rmult_le_compat_r; lra). assert (0 <= u n * w n) by now apply Rmult_le_pos.
    assert (0 <= d * a) by (apply Rmult_le_pos; lra). lra.
  - destruct (Rle_dec b d) as [Y|Y].
    + assert (a * b <= a * d) by (apply Rmult_le_compat_l; lra). assert (0 <= u n * w n) by now apply Rmult_le_pos.
      assert (0 <= d * b) by (apply Rmult_le_pos; lra). lra.
    + assert ((a - d) * (b - d) <= u n * w n) by (apply Rmult_le_compat; lra).
      assert (0 <= d * d) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma reaches_scale : forall u c a, 0 <= c -> reaches u a -> reaches (fun n => u n * c) (a * c).
Proof.
  intros u c a C H e P. destruct (H (e / (c + 1)) ltac:(apply Rdiv_lt_0_compat; lra)) as [N Q]. exists N. intros n Hn.
  specialize (Q n Hn). assert (D : e / (c + 1) * c < e).
  { apply Rlt_le_trans with (e / (c + 1) * (c + 1)); [|right; field; lra].
    apply Rmult_lt_compat_l; [apply Rdiv_lt_0_compat; lra|lra]. }
  assert ((a - e / (c + 1)) * c <= u n * c) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Lemma reaches_sup : forall u vs v, reaches vs v -> (forall M, reaches u (vs M)) -> reaches u v.
Proof.
  intros u vs v H L e P. destruct (H (e / 2) ltac:(lra)) as [M Q]. specialize (Q M ltac:(lia)).
  destruct (L M (e / 2) ltac:(lra)) as [N Q']. exists N. intros n Hn. specialize (Q' n Hn). lra.
Qed.

Lemma reaches_zsum : forall n a (u : nat -> Z -> R) v, (forall z, reaches (fun i => u i z) (v z)) ->
  reaches (fun i => zsum a n (u i)) (zsum a n v).
Proof.
  induction n as [|n IH]; intros a u v H; cbn [zsum]; [apply reaches_const|]. apply reaches_plus; auto.
Qed.

Lemma reaches_sum_box : forall h n (u : nat -> list Z -> R) v, (forall o, length o = length h -> reaches (fun i => u i o) (v o)) ->
  reaches (fun i => sum_box h n (u i)) (sum_box h n v).
Proof.
  induction h as [|x h IH]; intros n u v H; cbn [sum_box]; [now apply H|].
  apply (reaches_zsum _ _ (fun i z => sum_box h n (fun out => u i (z :: out)))). intros z.
  apply (IH n (fun i out => u i (z :: out))). intros o L. apply H. cbn. now rewrite L.
Qed.

Lemma product_nonneg : forall (l : list R), (forall x, In x l -> 0 <= x) -> 0 <= product_of l.
Proof.
  induction l as [|x l IH]; intros H; cbn; [lra|]. apply Rmult_le_pos; [apply H; now left|apply IH; intros y Y; apply H; now right].
Qed.

Lemma reaches_product : forall (u : nat -> Z -> R) v l, (forall n z, 0 <= u n z) -> (forall z, In z l -> 0 <= v z) ->
  (forall z, In z l -> reaches (fun n => u n z) (v z)) ->
  reaches (fun n => product_of (map (u n) l)) (product_of (map v l)).
Proof.
  intros u v. induction l as [|z l IH]; intros U V H; cbn [map product_of]; [apply reaches_const|].
  apply (reaches_mult (fun n => u n z) (fun n => product_of (map (u n) l))).
  - apply V. now left.
  - apply product_nonneg. intros x X. apply in_map_iff in X. destruct X as (y & <- & Y). apply V. now right.
  - intros n. apply U.
  - intros n. apply product_nonneg. intros x X. apply in_map_iff in X. destruct X as (y & <- & Y). apply U.
  - apply H. now left.
  - apply IH; [assumption| |]; intros y Y; [apply V|apply H]; now right.
Qed.

Lemma reaches_power : forall q, 0 <= q < 1 -> forall f, (forall n, (n <= f n)%nat) -> reaches (fun n => 1 - q ^ f n) 1.
Proof.
  intros q Q f F e P. destruct (pow_lt_1_zero q ltac:(rewrite Rabs_right; lra) e P) as [N H]. exists N. intros n Hn.
  specialize (H (f n) ltac:(specialize (F n); lia)). assert (0 <= q ^ f n) by (apply pow_le; lra). rewrite Rabs_right in H by lra. lra.
Qed.

(** ** Sums over boxes *)

Definition in_box (h : list Z) (n : nat) (o : list Z) : Prop := Forall2 (fun x z => x - Z.of_nat n <= z <= x + Z.of_nat n)%Z h o.

Lemma sum_box_le : forall h n f g, (forall o, in_box h n o -> f o <= g o) -> sum_box h n f <= sum_box h n g.
Proof.
  induction h as [|x h IH]; intros n f g H; cbn [sum_box]; [apply H; constructor|].
  apply zsum_le. intros z Hz. apply IH. intros o O. apply H. constructor; [lia|assumption].
Qed.

Lemma sum_box_zero : forall h n, sum_box h n (fun _ => 0) = 0.
Proof.
  induction h as [|x h IH]; intros n; cbn [sum_box]; [reflexivity|].
  rewrite (zsum_ext _ _ _ (fun _ => 0)) by (intros; apply IH). rewrite zsum_const. ring.
Qed.

Lemma sum_box_plus : forall h n f g, sum_box h n (fun o => f o + g o) = sum_box h n f + sum_box h n g.
Proof.
  induction h as [|x h IH]; intros n f g; cbn [sum_box]; [reflexivity|]. rewrite <- zsum_plus. apply zsum_ext. intros z. apply IH.
Qed.

Lemma indicator_cons : forall x y l l', indicator lists (x :: l) (y :: l') = indicator Z.eq_dec x y * indicator lists l l'.
Proof.
  intros. destruct (Z.eq_dec x y) as [->|N].
  - rewrite indicator_same, Rmult_1_l. destruct (lists l l') as [->|N]; [now rewrite !indicator_same|].
    rewrite !indicator_other; [reflexivity|assumption|]. intros H. apply N. now injection H.
  - rewrite (indicator_other _ Z.eq_dec x y N), Rmult_0_l. apply indicator_other. intros H. apply N. now injection H.
Qed.

Lemma indicator_sym : forall A dec (a b : A), indicator dec a b = indicator dec b a.
Proof.
  intros. destruct (dec a b) as [->|N]; [reflexivity|]. rewrite !indicator_other; [reflexivity|congruence|assumption].
Qed.

Lemma sum_box_single : forall h n a f, in_box h n a -> sum_box h n (fun o => indicator lists o a * f o) = f a.
Proof.
  intros h n a f H. revert f. induction H as [|x y h a L _ IH]; intros f; cbn [sum_box]; [rewrite indicator_same; ring|].
  rewrite (zsum_ext _ _ _ (fun z => indicator Z.eq_dec z y * f (z :: a))).
  - rewrite zsum_single; [reflexivity|lia].
  - intros z. rewrite (sum_box_ext _ _ _ (fun o => indicator lists o a * (f (z :: o) * indicator Z.eq_dec z y))).
    + rewrite (IH (fun o => f (z :: o) * indicator Z.eq_dec z y)). ring.
    + intros o. rewrite indicator_cons. ring.
Qed.

Lemma sum_box_indicator : forall h n a, sum_box h n (fun o => indicator lists a o) <= 1.
Proof.
  intros h n. induction h as [|x h IH]; intros a; cbn [sum_box]; [apply indicator_range|].
  destruct a as [|y a].
  - rewrite (zsum_ext _ _ _ (fun _ => 0)); [rewrite zsum_const; lra|]. intros z.
    rewrite (sum_box_ext _ _ _ (fun _ => 0)); [apply sum_box_zero|]. intros o. apply indicator_other. discriminate.
  - set (c := sum_box h n (fun o => indicator lists a o)).
    assert (C : 0 <= c) by (unfold c; rewrite <- (sum_box_zero h n); apply sum_box_le; intros; apply indicator_range).
    rewrite (zsum_ext _ _ _ (fun z => indicator Z.eq_dec z y * c)).
    + rewrite zsum_scale. specialize (IH a). fold c in IH.
      assert (Z1 : zsum (x - Z.of_nat n) (2 * n + 1) (fun z => indicator Z.eq_dec z y) <= 1).
      { generalize (x - Z.of_nat n)%Z (2 * n + 1)%nat. clear. intros b m. revert b. induction m as [|m IHm]; intros b; cbn [zsum]; [lra|].
        destruct (Z.eq_dec b y) as [->|N].
        - rewrite indicator_same, (zsum_eq m (y + 1) _ (fun _ => 0)); [rewrite zsum_const; lra|].
          intros z Hz. apply indicator_other. lia.
        - rewrite indicator_other by assumption. specialize (IHm (b + 1)%Z). lra. }
      apply Rle_trans with (1 * c); [apply Rmult_le_compat_r; assumption|lra].
    + intros z. unfold c. rewrite Rmult_comm, <- sum_box_scale. apply sum_box_ext. intros o.
      rewrite indicator_cons, (indicator_sym _ _ y z). ring.
Qed.

Lemma sum_box_product : forall (F : Z -> Z -> R) (zs : list Z) h n, length h = length zs ->
  sum_box h n (fun js => product_of (zip F zs js)) =
  product_of (zip (fun z x => zsum (x - Z.of_nat n) (2 * n + 1) (F z)) zs h).
Proof.
  intros F. induction zs as [|z zs IH]; intros [|x h] n L; try discriminate; cbn [sum_box zip product_of]; [reflexivity|].
  injection L as L. rewrite <- (IH h n L). rewrite <- zsum_scale. apply zsum_ext. intros j.
  rewrite Rmult_comm, <- sum_box_scale. apply sum_box_ext. intros js. ring.
Qed.

Lemma zip_length : forall A B C (f : A -> B -> C) l l', length l = length l' -> length (zip f l l') = length l.
Proof. intros A B C f. induction l as [|x l IH]; intros [|y l'] L; try discriminate; [reflexivity|]. cbn. f_equal. apply IH. now injection L. Qed.

Lemma in_box_length : forall h n o, in_box h n o -> length h = length o.
Proof. intros h n o H. induction H; cbn; auto. Qed.

(** Every list is in some box. *)
Lemma boxed : forall h o, length h = length o -> exists K, forall n, (K <= n)%nat -> in_box h n o.
Proof.
  induction h as [|x h IH]; intros [|y o] L; try discriminate; [exists O; intros; constructor|].
  injection L as L. destruct (IH o L) as [K H]. exists (Nat.max K (Z.to_nat (Z.abs (x - y)))). intros n Hn.
  constructor; [lia|apply H; lia].
Qed.

(** What programs return: lists of the right length. *)
Fixpoint returns {A} (P : A -> Prop) (p : prog A) : Prop :=
  match p with Ret a => P a | Fail => True | Draw f => forall x, returns P (f x) end.

Lemma returns_bind : forall A B (P : A -> Prop) (Q : B -> Prop) p q,
  returns P p -> (forall a, P a -> returns Q (q a)) -> returns Q (bind p q).
Proof. intros A B P Q p q H L. induction p as [a| |f IH]; cbn in *; auto. Qed.

Lemma returns_any : forall A (p : prog A), returns (fun _ => True) p.
Proof. intros A p. induction p; cbn; auto. Qed.

Lemma returns_words : forall m, returns (fun l => length l = m) (words m).
Proof.
  induction m as [|m IH]; cbn; [reflexivity|]. intros x. apply (returns_bind _ _ _ _ _ _ IH). intros a L. cbn. now rewrite L.
Qed.

Lemma returns_each : forall A B (q : A -> prog B) l, returns (fun o => length o = length l) (each q l).
Proof.
  intros A B q. induction l as [|x l IH]; cbn; [reflexivity|]. apply (returns_bind _ _ (fun _ => True)); [apply returns_any|].
  intros b _. apply (returns_bind _ _ _ _ _ _ IH). intros bs L. cbn. now rewrite L.
Qed.

Lemma returns_words_each : forall B (q : Z -> prog B) m, returns (fun o => length o = m) (bind (words m) (each q)).
Proof. intros. apply (returns_bind _ _ _ _ _ _ (returns_words m)). intros l <-. apply returns_each. Qed.

Lemma merge_length : forall outs more, length (merge outs more) = length outs.
Proof. induction outs as [|[d|] outs IH]; intros [|x more]; cbn; auto. Qed.

Section Law.

Variables base digits coins : Z.
Hypothesis base_big : (2 <= base)%Z.
Hypothesis digits_pos : (0 < digits)%Z.
Hypothesis coins_pos : (0 < coins)%Z.
Hypothesis word : (base = digits * coins)%Z.
Variables num den : Z.
Hypothesis num_pos : (0 < num)%Z.
Hypothesis den_pos : (0 < den)%Z.
Variable dlog : Z -> Z -> option Z.
Variable dbelow : Z -> Z -> Z -> option bool.
Hypothesis log_sound : sound Z dlog (log_low num (den * digits)) (log_high num (den * digits)).
Hypothesis log_complete : forall v, (0 <= v)%Z -> complete Z dlog (log_low num (den * digits)) (log_high num (den * digits)) v.
Hypothesis below_sound : forall r, (0 <= r < digits)%Z -> sound bool (dbelow r) (below_low num den r) (below_high num den r).
Hypothesis below_complete : forall r v, (0 <= r < digits)%Z -> complete bool (dbelow r) (below_low num den r) (below_high num den r) v.

Let base_pos : (0 < base)%Z. Proof. lia. Qed.
Notation E := (E base).
Notation law := (law base).
Notation mean := (mean base).
Definition rate : R := IZR den / IZR num.

Lemma rate_pos : 0 < rate.
Proof. apply Rdiv_lt_0_compat; now apply IZR_lt. Qed.

Lemma E_ext_on : forall A (P : A -> Prop) (p : prog A) f g, returns P p -> (forall a, P a -> f a = g a) -> E p f = E p g.
Proof. intros A P p f g R H. induction p as [a| |q IH]; cbn in *; auto. apply mean_ext; auto. Qed.

(** *** Each uniform begins with a first word, and is then refined *)

(** A cell inside [0, 1] is hit with its width, but for what is not decided yet. *)
Lemma refined : forall A dec decide (low high : A -> R) fuel n v, (0 < n)%Z ->
  sound A decide low high -> complete A decide low high v -> apart A low high -> 0 <= low v <= high v -> high v <= 1 ->
  high v - low v - 4 / (IZR n * IZR base ^ fuel) <= Draws.mean n (fun x => law dec (refine base decide fuel x n) v) <= high v - low v.
Proof.
  intros A dec decide low high fuel n v N S C Ap L H.
  assert (Nr : 0 < IZR n) by now apply IZR_lt. assert (Br : 0 < IZR base) by now apply IZR_lt.
  set (d := 2 / (IZR n * IZR base ^ fuel)). assert (D : 0 < d).
  { apply Rdiv_lt_0_compat; [lra|]. apply Rmult_lt_0_compat; [assumption|now apply pow_lt]. }
  replace (4 / (IZR n * IZR base ^ fuel)) with (2 * d)
    by (unfold d; field; split; [apply pow_nonzero; lra|lra]).
  assert (Whole : forall l h, Draws.mean n (fun x => part l h x n) = part l h 0 1).
  { intros l h. rewrite <- (part_additive n N l h 0 1) by lia. apply mean_ext; [assumption|]. intros x _. now rewrite Z.mul_0_l, Z.add_0_l, Z.mul_1_l. }
  assert (Cl : forall l h, part l h 0 1 = clamp l h 1 - clamp l h 0).
  { intros l h. unfold part. rewrite Z.add_0_l. replace (1 / 1) with 1 by field. replace (0 / 1) with 0 by field. ring. }
  split.
  - apply Rle_trans with (Draws.mean n (fun x => part (low v + d) (high v - d) x n)).
    + rewrite Whole, Cl. unfold clamp, Rmax, Rmin. repeat destruct Rle_dec; lra.
    + apply mean_le; [assumption|]. intros x Hx. apply refine_least; auto.
  - apply Rle_trans with (Draws.mean n (fun x => part (low v) (high v) x n)).
    + apply mean_le; [assumption|]. intros x Hx. apply refine_most; auto.
    + rewrite Whole, Cl. unfold clamp, Rmax, Rmin. repeat destruct Rle_dec; lra.
Qed.

Lemma small : forall c n, (0 < n)%Z -> 0 <= c -> reaches (fun fuel => - (c / (IZR n * IZR base ^ fuel))) 0.
Proof.
  intros c n N C e P. assert (Nr : 1 <= IZR n) by (apply IZR_le; lia). assert (Br : 2 <= IZR base) by now apply IZR_le.
  destruct (pow_lt_1_zero (/ IZR base)) with (y := e / (c + 1)) as [M Q].
  - rewrite Rabs_right by (left; apply Rinv_0_lt_compat; lra). rewrite <- Rinv_1. apply Rinv_lt_contravar; lra.
  - apply Rdiv_lt_0_compat; lra.
  - exists M. intros n' Hn. specialize (Q n' Hn). rewrite pow_inv in Q.
    assert (B : 0 < IZR base ^ n') by (apply pow_lt; lra).
    assert (Ib : 0 < / IZR base ^ n') by now apply Rinv_0_lt_compat. rewrite Rabs_right in Q by lra.
    assert (c / (IZR n * IZR base ^ n') <= c * / IZR base ^ n').
    { unfold Rdiv. apply Rmult_le_compat_l; [assumption|]. apply Rinv_le_contravar; [assumption|]. nra. }
    assert ((c + 1) * / IZR base ^ n' < e).
    { apply Rlt_le_trans with ((c + 1) * (e / (c + 1))); [apply Rmult_lt_compat_l; lra|right; field; lra]. }
    lra.
Qed.

Lemma small_enough : forall u v n, (0 < n)%Z -> (forall fuel, v - 4 / (IZR n * IZR base ^ fuel) <= u fuel) -> reaches u v.
Proof.
  intros u v n N H. apply (reaches_le (fun fuel => v + - (4 / (IZR n * IZR base ^ fuel)))).
  - pose proof (reaches_plus _ _ _ _ (reaches_const v) (small 4 n N ltac:(lra))) as X. rewrite Rplus_0_r in X. exact X.
  - intros fuel. specialize (H fuel). lra.
Qed.

(** *** The high digits *)

Definition log_mass (fuel : nat) (k : Z) : R := mean (fun x => law Z.eq_dec (refine base dlog fuel x base) k).

Lemma logs_law : forall fuel m ks, length ks = m -> law lists (logs base dlog fuel m) ks = product_of (map (log_mass fuel) ks).
Proof.
  intros fuel m ks L. unfold Draws.law, logs.
  rewrite (E_ext _ base_pos _ _ _ (product (map (fun k a => indicator Z.eq_dec a k) ks))) by (intros; apply indicator_list).
  rewrite (E_words_each base base_pos) by now rewrite map_length. rewrite map_map. reflexivity.
Qed.

(** With n further words the mass of each value is right to 4/base^(n+1), and never too large. *)
Theorem log_mass_bounds : forall fuel k, (0 <= k)%Z ->
  log_high num (den * digits) k - log_low num (den * digits) k - 4 / (IZR base * IZR base ^ fuel)
    <= log_mass fuel k <= log_high num (den * digits) k - log_low num (den * digits) k.
Proof.
  intros fuel k K. assert (Dp : (0 < den * digits)%Z) by nia. apply refined; auto.
  - now apply log_apart.
  - split; [left; apply exp_pos|]. apply exp_mono, Ropp_le_contravar, scaled; lia.
  - unfold log_high. rewrite <- exp_0. apply exp_mono.
    assert (0 <= IZR k * IZR (den * digits) / IZR num); [|lra].
    apply Rmult_le_pos; [apply Rmult_le_pos; apply IZR_le; lia|left; apply Rinv_0_lt_compat; now apply IZR_lt].
Qed.

Lemma log_mass_reaches : forall k, (0 <= k)%Z ->
  reaches (fun n => log_mass n k) (exp (- rate * IZR (k * digits)) * (1 - exp (- rate * IZR digits))).
Proof.
  intros k K.
  replace (exp (- rate * IZR (k * digits)) * (1 - exp (- rate * IZR digits)))
    with (log_high num (den * digits) k - log_low num (den * digits) k).
  - apply (small_enough _ _ base base_pos). intros fuel. now apply log_mass_bounds.
  - assert (0 < IZR num) by now apply IZR_lt. unfold log_high, log_low.
    replace (- (IZR (k + 1) * IZR (den * digits) / IZR num)) with (- rate * IZR (k * digits) + - rate * IZR digits)
      by (unfold rate; rewrite plus_IZR, !mult_IZR; field; lra).
    replace (- (IZR k * IZR (den * digits) / IZR num)) with (- rate * IZR (k * digits))
      by (unfold rate; rewrite !mult_IZR; field; lra).
    rewrite exp_plus. ring.
Qed.

(** *** The low digits *)

Definition taken (r : Z) (o : option Z) : R := match o with Some d => indicator Z.eq_dec d r | None => 0 end.
Definition refused (o : option Z) : R := match o with Some _ => 0 | None => 1 end.
Definition take (fuel : nat) (r : Z) : R := mean (fun x => E (coin base coins dbelow fuel x) (taken r)).
Definition refuse (fuel : nat) : R := mean (fun x => E (coin base coins dbelow fuel x) refused).
Fixpoint low_mass (tries fuel : nat) (r : Z) : R :=
  match tries with O => 0 | S t => take fuel r + refuse fuel * low_mass t fuel r end.

Fixpoint fixed (outs : list (option Z)) (rs : list Z) : R :=
  match outs, rs with
  | Some d :: outs', r :: rs' => indicator Z.eq_dec d r * fixed outs' rs'
  | None :: outs', _ :: rs' => fixed outs' rs'
  | _, _ => 1
  end.
Fixpoint still (outs : list (option Z)) (rs : list Z) : list Z :=
  match outs, rs with
  | Some _ :: outs', _ :: rs' => still outs' rs'
  | None :: outs', r :: rs' => r :: still outs' rs'
  | _, _ => []
  end.

Lemma still_length : forall outs rs, length outs = length rs -> length (still outs rs) = unset outs.
Proof. induction outs as [|[d|] outs IH]; intros [|r rs] L; try discriminate; cbn; auto. Qed.

Lemma merge_indicator : forall outs rs more, length outs = length rs -> length more = unset outs ->
  indicator lists (merge outs more) rs = indicator lists more (still outs rs) * fixed outs rs.
Proof.
  induction outs as [|[d|] outs IH]; intros [|r rs] more L M; try discriminate; cbn [merge unset fixed still] in *.
  - destruct more; [|discriminate]. rewrite !indicator_same. ring.
  - injection L as L. rewrite indicator_cons, IH by assumption. ring.
  - injection L as L. destruct more as [|x more]; [discriminate|]. injection M as M.
    rewrite !indicator_cons, IH by assumption. ring.
Qed.

Lemma merge_product : forall (f : Z -> R) outs rs, length outs = length rs ->
  product (map (fun r o => taken r o + refused o * f r) rs) outs = product_of (map f (still outs rs)) * fixed outs rs.
Proof.
  intros f. induction outs as [|[d|] outs IH]; intros [|r rs] L; try discriminate; cbn [map product fixed still product_of taken refused].
  - ring.
  - injection L as L. rewrite IH by assumption. ring.
  - injection L as L. rewrite IH by assumption. ring.
Qed.

Lemma returns_lows : forall tries fuel m, returns (fun l => length l = m) (lows base coins dbelow tries fuel m).
Proof.
  induction tries as [|t IH]; intros fuel [|m]; try (cbn; auto; fail). cbn [lows].
  apply (returns_bind _ _ _ _ _ _ (returns_words_each _ (coin base coins dbelow fuel) (S m))). intros outs L.
  apply (returns_bind _ _ _ _ _ _ (IH fuel (unset outs))). intros more _. cbn [returns]. now rewrite merge_length.
Qed.

Lemma lows_law : forall tries fuel m rs, length rs = m ->
  law lists (lows base coins dbelow tries fuel m) rs = product_of (map (low_mass tries fuel) rs).
Proof.
  induction tries as [|t IH]; intros fuel [|m] [|r rs] L; try discriminate; try (unfold Draws.law; cbn; now rewrite ?Rmult_0_l, ?indicator_same).
  unfold Draws.law. cbn [lows]. rewrite (E_bind base base_pos).
  set (l := r :: rs) in *. set (n := S m) in *.
  rewrite (E_ext_on _ _ _ _ (product (map (fun r o => taken r o + refused o * low_mass t fuel r) l))
             (returns_words_each _ (coin base coins dbelow fuel) n)).
  - rewrite (E_words_each base base_pos) by (rewrite ?map_length; assumption). f_equal. rewrite map_map. apply map_ext. intros a.
    cbn [low_mass]. unfold take, refuse. rewrite <- (mean_scale base base_pos), <- (mean_plus base base_pos).
    apply mean_ext; [assumption|]. intros x _. rewrite <- (E_scale base base_pos). rewrite <- (E_plus base base_pos). reflexivity.
  - intros outs O. rewrite (E_bind base base_pos).
    rewrite merge_product by congruence. rewrite <- (IH fuel (unset outs)) by (rewrite still_length; congruence).
    unfold Draws.law. rewrite <- (E_scale base base_pos). apply (E_ext_on _ _ _ _ _ (returns_lows t fuel (unset outs))).
    intros more M. cbn [Draws.E]. apply merge_indicator; congruence.
Qed.

Lemma E_coin : forall fuel x g, E (coin base coins dbelow fuel x) g =
  E (refine base (dbelow (x / coins)) fuel (x mod coins) coins) (fun ok => g (if ok then Some (x / coins)%Z else None)).
Proof. intros. unfold coin. rewrite (E_bind base base_pos). reflexivity. Qed.

(** A mean over words is one over digits, of means over coins. *)
Lemma mean_split : forall f, mean (fun x => f (x / coins)%Z (x mod coins)%Z) =
  zsum 0 (Z.to_nat digits) (fun r => Draws.mean coins (f r)) / IZR digits.
Proof.
  intros f. unfold Draws.mean. rewrite word at 1.
  replace (Z.to_nat (digits * coins)) with (Z.to_nat digits * Z.to_nat coins)%nat by (rewrite Z2Nat.inj_mul; lia).
  rewrite zsum_split.
  rewrite (zsum_eq _ _ _ (fun r => zsum 0 (Z.to_nat coins) (f r) / IZR coins * IZR coins)).
  - rewrite zsum_scale. rewrite word, mult_IZR. field. split; apply not_0_IZR; lia.
  - intros r _. transitivity (zsum 0 (Z.to_nat coins) (f r)); [|field; apply not_0_IZR; lia].
    apply zsum_eq. intros x Hx. rewrite Z2Nat.id by lia.
    rewrite (Z.add_comm (r * coins) x), Z.div_add, Z.div_small, Z.mod_add, Z.mod_small, Z.add_0_l by lia. reflexivity.
Qed.

Definition coin_mass (fuel : nat) (r : Z) (accepted : bool) : R :=
  Draws.mean coins (fun c => law Bool.bool_dec (refine base (dbelow r) fuel c coins) accepted).

Lemma coin_mass_bounds : forall fuel r accepted, (0 <= r < digits)%Z ->
  below_high num den r accepted - below_low num den r accepted - 4 / (IZR coins * IZR base ^ fuel)
    <= coin_mass fuel r accepted <= below_high num den r accepted - below_low num den r accepted.
Proof.
  intros fuel r accepted H. assert (X : 0 <= IZR r * IZR den / IZR num).
  { apply Rmult_le_pos; [apply Rmult_le_pos; apply IZR_le; lia|left; apply Rinv_0_lt_compat; now apply IZR_lt]. }
  assert (B : exp (- (IZR r * IZR den / IZR num)) <= 1) by (rewrite <- exp_0; apply exp_mono; lra).
  pose proof (exp_pos (- (IZR r * IZR den / IZR num))).
  apply refined; auto; [apply below_apart|destruct accepted; cbn; lra|destruct accepted; cbn; lra].
Qed.

Lemma take_is : forall fuel r, (0 <= r < digits)%Z -> take fuel r = coin_mass fuel r true / IZR digits.
Proof.
  intros fuel r H. unfold take.
  pose (F := fun d c => indicator Z.eq_dec d r * law Bool.bool_dec (refine base (dbelow d) fuel c coins) true).
  transitivity (mean (fun x => F (x / coins)%Z (x mod coins)%Z)).
  - apply mean_ext; [assumption|]. intros x _. rewrite E_coin. unfold F, Draws.law.
    rewrite Rmult_comm, <- (E_scale base base_pos). apply (E_ext base base_pos).
    intros []; cbn [taken]; [rewrite (indicator_same _ Bool.bool_dec)|rewrite (indicator_other _ Bool.bool_dec) by discriminate]; ring.
  - rewrite (mean_split F). f_equal. unfold coin_mass, F.
    rewrite (zsum_ext _ _ _ (fun d => indicator Z.eq_dec d r * Draws.mean coins (fun c => law Bool.bool_dec (refine base (dbelow d) fuel c coins) true))).
    + rewrite zsum_single by lia. reflexivity.
    + intros d. rewrite Rmult_comm, <- (mean_scale coins coins_pos). apply mean_ext; [assumption|]. intros c _. ring.
Qed.

Lemma refuse_is : forall fuel, refuse fuel = zsum 0 (Z.to_nat digits) (fun r => coin_mass fuel r false) / IZR digits.
Proof.
  intros fuel. unfold refuse.
  pose (F := fun d c => law Bool.bool_dec (refine base (dbelow d) fuel c coins) false).
  transitivity (mean (fun x => F (x / coins)%Z (x mod coins)%Z)); [|now rewrite (mean_split F)].
  apply mean_ext; [assumption|]. intros x _. rewrite E_coin. unfold F, Draws.law. apply (E_ext base base_pos).
  intros []; cbn [refused]; [rewrite indicator_other by discriminate|rewrite indicator_same]; reflexivity.
Qed.


(** e^-(k/s) *)
Definition pw (k : Z) : R := exp (- rate * IZR k).

Lemma pw_pos : forall k, 0 < pw k. Proof. intros. apply exp_pos. Qed.

Lemma pw_plus : forall j k, pw (j + k) = pw j * pw k.
Proof. intros. unfold pw. rewrite plus_IZR, Rmult_plus_distr_l. apply exp_plus. Qed.

Lemma pw_0 : pw 0 = 1. Proof. unfold pw. rewrite Rmult_0_r. apply exp_0. Qed.

Lemma pw_1 : pw 1 = ratio rate. Proof. unfold pw, ratio. now rewrite Rmult_1_r. Qed.

Lemma pw_small : forall k, (0 < k)%Z -> pw k < 1.
Proof. intros k K. unfold pw. rewrite <- exp_0. apply exp_increasing. pose proof rate_pos. apply IZR_lt in K. nra. Qed.

Lemma pw_most : forall k, (0 <= k)%Z -> pw k <= 1.
Proof. intros k K. unfold pw. rewrite <- exp_0. apply exp_mono. pose proof rate_pos. apply IZR_le in K. nra. Qed.

Lemma pw_sum : forall d, zsum 0 d pw * (1 - pw 1) = 1 - pw (Z.of_nat d).
Proof.
  induction d as [|d IH]; [cbn [zsum]; change (Z.of_nat 0) with 0%Z; rewrite pw_0; ring|].
  rewrite zsum_last, Rmult_plus_distr_r, IH, Z.add_0_l. rewrite Nat2Z.inj_succ. unfold Z.succ. rewrite pw_plus. ring.
Qed.

Lemma coin_reaches : forall r accepted, (0 <= r < digits)%Z ->
  reaches (fun n => coin_mass n r accepted) (if accepted then pw r else 1 - pw r).
Proof.
  intros r accepted H. assert (X : exp (- (IZR r * IZR den / IZR num)) = pw r).
  { unfold pw, rate. f_equal. field. apply not_0_IZR. lia. }
  replace (if accepted then pw r else 1 - pw r) with (below_high num den r accepted - below_low num den r accepted)
    by (destruct accepted; cbn [below_high below_low]; rewrite X; ring).
  apply (small_enough _ _ coins coins_pos). intros fuel. now apply coin_mass_bounds.
Qed.

Lemma digits_R : 0 < IZR digits. Proof. now apply IZR_lt. Qed.

Lemma take_reaches : forall r, (0 <= r < digits)%Z -> reaches (fun n => take n r) (pw r * / IZR digits).
Proof.
  intros r H. apply (reaches_le (fun n => coin_mass n r true * / IZR digits)).
  - apply reaches_scale; [left; apply Rinv_0_lt_compat, digits_R|]. exact (coin_reaches r true H).
  - intros n. rewrite take_is by assumption. right. reflexivity.
Qed.

(** The mass that a round accepts. *)
Definition accepts : R := (1 - pw digits) / ((1 - pw 1) * IZR digits).

Lemma accepts_pos : 0 < accepts.
Proof.
  pose proof (pw_small digits digits_pos). pose proof (pw_small 1 ltac:(lia)). pose proof digits_R.
  apply Rdiv_lt_0_compat; [lra|]. apply Rmult_lt_0_compat; lra.
Qed.

Lemma accepts_sum : zsum 0 (Z.to_nat digits) (fun r => 1 - pw r) * / IZR digits = 1 - accepts.
Proof.
  pose proof (pw_small 1 ltac:(lia)) as P. pose proof digits_R as D. pose proof (pw_sum (Z.to_nat digits)) as S.
  rewrite Z2Nat.id in S by lia. unfold accepts. rewrite <- S.
  rewrite (zsum_ext _ _ _ (fun r => 1 + pw r * -1)) by (intros; ring). rewrite zsum_plus, zsum_const, zsum_scale.
  rewrite INR_IZR_INZ, Z2Nat.id by lia. field. lra.
Qed.

Lemma accepts_most : accepts <= 1.
Proof.
  assert (0 <= 1 - accepts); [|lra]. rewrite <- accepts_sum. pose proof digits_R.
  apply Rmult_le_pos; [|left; now apply Rinv_0_lt_compat]. apply zsum_nonneg. intros z Hz.
  pose proof (pw_most z ltac:(lia)). lra.
Qed.

Lemma reaches_zsum_on : forall n a (u : nat -> Z -> R) v, (forall z, (a <= z < a + Z.of_nat n)%Z -> reaches (fun i => u i z) (v z)) ->
  reaches (fun i => zsum a n (u i)) (zsum a n v).
Proof.
  induction n as [|n IH]; intros a u v H; cbn [zsum]; [apply reaches_const|]. apply reaches_plus; [apply H; lia|].
  apply IH. intros z Hz. apply H. lia.
Qed.

Lemma refuse_reaches : reaches refuse (1 - accepts).
Proof.
  rewrite <- accepts_sum. apply (reaches_le (fun n => zsum 0 (Z.to_nat digits) (fun r => coin_mass n r false) * / IZR digits)).
  - apply reaches_scale; [left; apply Rinv_0_lt_compat, digits_R|]. apply reaches_zsum_on. intros r Hr.
    apply (coin_reaches r false). lia.
  - intros n. rewrite refuse_is. right. reflexivity.
Qed.

Lemma mean_nonneg : forall n f, (0 < n)%Z -> (forall x, 0 <= f x) -> 0 <= Draws.mean n f.
Proof. intros n f N H. rewrite <- (mean_const n N 0). apply mean_le; [assumption|]. intros x _. apply H. Qed.

Lemma take_nonneg : forall n r, 0 <= take n r.
Proof.
  intros n r. apply mean_nonneg; [assumption|]. intros x. apply E_nonneg; [assumption|].
  intros [d|]; cbn [taken]; [apply indicator_range|lra].
Qed.

Lemma refuse_nonneg : forall n, 0 <= refuse n.
Proof.
  intros n. apply mean_nonneg; [assumption|]. intros x. apply E_nonneg; [assumption|]. intros [d|]; cbn [refused]; lra.
Qed.

Lemma low_mass_nonneg : forall t n r, 0 <= low_mass t n r.
Proof.
  induction t as [|t IH]; intros n r; cbn [low_mass]; [lra|].
  apply Rplus_le_le_0_compat; [apply take_nonneg|apply Rmult_le_pos; [apply refuse_nonneg|apply IH]].
Qed.

Lemma low_mass_mono : forall t t' n r, (t <= t')%nat -> low_mass t n r <= low_mass t' n r.
Proof.
  induction t as [|t IH]; intros [|t'] n r L; try lia; try (apply low_mass_nonneg).
  cbn [low_mass]. apply Rplus_le_compat_l, Rmult_le_compat_l; [apply refuse_nonneg|apply IH; lia].
Qed.

Lemma low_mass_reaches_some : forall t r, (0 <= r < digits)%Z ->
  reaches (fun n => low_mass t n r) (pw r * / IZR digits / accepts * (1 - (1 - accepts) ^ t)).
Proof.
  intros t r H. pose proof accepts_pos as P. pose proof accepts_most as M. pose proof digits_R as D. pose proof (pw_pos r) as W.
  assert (T : 0 <= pw r * / IZR digits) by (apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]).
  induction t as [|t IH]; cbn [low_mass pow].
  - rewrite Rminus_diag_eq, Rmult_0_r by reflexivity. apply reaches_const.
  - replace (pw r * / IZR digits / accepts * (1 - (1 - accepts) * (1 - accepts) ^ t)) with
      (pw r * / IZR digits + (1 - accepts) * (pw r * / IZR digits / accepts * (1 - (1 - accepts) ^ t))) by (field; lra).
    apply reaches_plus; [now apply take_reaches|]. apply (reaches_mult refuse).
    + lra.
    + apply Rmult_le_pos; [apply Rmult_le_pos; [assumption|left; now apply Rinv_0_lt_compat]|].
      assert (X : (1 - accepts) ^ t <= 1 ^ t) by (apply pow_incr; lra). rewrite pow1 in X. lra.
    + apply refuse_nonneg.
    + intros n. apply low_mass_nonneg.
    + apply refuse_reaches.
    + exact IH.
Qed.

Definition lowest (n : nat) (r : Z) : R := if (digits =? 1)%Z then indicator Z.eq_dec 0%Z r else low_mass n n r.

Lemma lowest_reaches : forall r, (0 <= r < digits)%Z ->
  reaches (fun n => lowest n r) (pw r * (1 - pw 1) / (1 - pw digits)).
Proof.
  intros r H. unfold lowest. destruct (Z.eqb_spec digits 1) as [One|_].
  - rewrite One in *. replace r with 0%Z by lia. rewrite indicator_same, pw_0. pose proof (pw_small 1 ltac:(lia)).
    replace (1 * (1 - pw 1) / (1 - pw 1)) with 1 by (field; lra). apply reaches_const.
  - pose proof accepts_pos as P. pose proof accepts_most as M. pose proof digits_R as D. pose proof (pw_pos r) as W.
    pose proof (pw_small digits digits_pos). pose proof (pw_small 1 ltac:(lia)).
    assert (C : 0 <= pw r * / IZR digits / accepts).
    { apply Rmult_le_pos; [apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]|left; now apply Rinv_0_lt_compat]. }
    replace (pw r * (1 - pw 1) / (1 - pw digits)) with (1 * (pw r * / IZR digits / accepts)) by (unfold accepts; field; lra).
    apply (reaches_sup _ (fun t => (1 - (1 - accepts) ^ t) * (pw r * / IZR digits / accepts))).
    + apply reaches_scale; [assumption|]. apply (reaches_power (1 - accepts) ltac:(lra) (fun t => t)). lia.
    + intros t e Ep. destruct (low_mass_reaches_some t r H e Ep) as [N Q]. exists (Nat.max N t). intros n Hn.
      specialize (Q n ltac:(lia)). pose proof (low_mass_mono t n n r ltac:(lia)). lra.
Qed.

(** *** Both digits: a geometric variable *)

Definition geo_mass (n : nat) (g : Z) : R := log_mass n (g / digits) * lowest n (g mod digits).
Definition geo (g : Z) : R := pw g * (1 - pw 1).

Lemma log_mass_nonneg : forall n k, 0 <= log_mass n k.
Proof. intros n k. apply mean_nonneg; [assumption|]. intros x. apply law_range. assumption. Qed.

Lemma lowest_nonneg : forall n r, 0 <= lowest n r.
Proof. intros n r. unfold lowest. destruct (digits =? 1)%Z; [apply indicator_range|apply low_mass_nonneg]. Qed.

Lemma geo_mass_nonneg : forall n g, 0 <= geo_mass n g.
Proof. intros. apply Rmult_le_pos; [apply log_mass_nonneg|apply lowest_nonneg]. Qed.

Lemma geo_nonneg : forall g, 0 <= geo g.
Proof. intros g. pose proof (pw_pos g). pose proof (pw_small 1 ltac:(lia)). apply Rmult_le_pos; lra. Qed.

Lemma geo_reaches : forall g, (0 <= g)%Z -> reaches (fun n => geo_mass n g) (geo g).
Proof.
  intros g H. pose proof (pw_small digits digits_pos). pose proof (pw_small 1 ltac:(lia)).
  pose proof (Z.mod_pos_bound g digits digits_pos) as Mb. pose proof (pw_pos (g mod digits)) as W.
  pose proof (pw_pos (g / digits * digits)) as W'.
  replace (geo g) with ((pw (g / digits * digits) * (1 - pw digits)) * (pw (g mod digits) * (1 - pw 1) / (1 - pw digits))).
  - apply (reaches_mult (fun n => log_mass n (g / digits)) (fun n => lowest n (g mod digits))).
    + apply Rmult_le_pos; lra.
    + apply Rmult_le_pos; [apply Rmult_le_pos; lra|left; apply Rinv_0_lt_compat; lra].
    + intros n. apply log_mass_nonneg.
    + intros n. apply lowest_nonneg.
    + unfold pw. apply log_mass_reaches. apply Z.div_pos; lia.
    + now apply lowest_reaches.
  - unfold geo. rewrite (Z.div_mod g digits) at 3 by lia. rewrite pw_plus, (Z.mul_comm digits). field. lra.
Qed.

Lemma product_mult : forall (f g : Z -> R) l, product_of (map (fun x => f x * g x) l) = product_of (map f l) * product_of (map g l).
Proof. intros f g. induction l as [|x l IH]; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma joined : forall gs, zip (fun high low => high * digits + low)%Z (map (fun g => g / digits)%Z gs) (map (fun g => g mod digits)%Z gs) = gs.
Proof.
  induction gs as [|g gs IH]; cbn [map zip]; [reflexivity|]. f_equal; [|exact IH]. rewrite Z.mul_comm. symmetry. apply Z.div_mod. lia.
Qed.

Lemma geometric_law : forall n m gs, length gs = m ->
  product_of (map (geo_mass n) gs) <= law lists (geometric base digits coins dlog dbelow n m) gs.
Proof.
  intros n m gs L. unfold geo_mass. rewrite product_mult.
  set (highs := map (fun g => g / digits)%Z gs). set (ls := map (fun g => g mod digits)%Z gs).
  replace (product_of (map (fun x => log_mass n (x / digits)) gs)) with (product_of (map (log_mass n) highs))
    by (unfold highs; now rewrite map_map).
  replace (product_of (map (fun x => lowest n (x mod digits)) gs)) with (product_of (map (lowest n) ls))
    by (unfold ls; now rewrite map_map).
  rewrite <- (logs_law n m highs) by (unfold highs; now rewrite map_length).
  unfold geometric. set (lp := if (digits =? 1)%Z then Ret (repeat 0%Z m) else lows base coins dbelow n n m).
  assert (Lp : product_of (map (lowest n) ls) = law lists lp ls).
  { unfold lp, lowest. destruct (Z.eqb_spec digits 1) as [One|_].
    - unfold Draws.law. cbn [Draws.E]. unfold ls. clear -L One. rewrite One. subst m. induction gs as [|g gs IH]; cbn [map product_of length repeat].
      + now rewrite indicator_same.
      + rewrite indicator_cons, IH. reflexivity.
    - symmetry. apply lows_law. unfold ls. now rewrite map_length. }
  rewrite Lp. unfold Draws.law at 1 3. rewrite (E_bind base base_pos), <- (E_scale base base_pos). apply E_le; [assumption|].
  intros hs. rewrite (E_bind base base_pos). rewrite Rmult_comm. unfold Draws.law. rewrite <- (E_scale base base_pos). apply E_le; [assumption|].
  intros l. cbn [Draws.E]. destruct (lists hs highs) as [->|N].
  - destruct (lists l ls) as [->|N].
    + rewrite !indicator_same. unfold highs, ls. rewrite joined, indicator_same. lra.
    + rewrite (indicator_other _ _ l ls N). pose proof (indicator_range _ lists (zip (fun high low => (high * digits + low)%Z) highs l) gs). lra.
  - rewrite (indicator_other _ _ hs highs N). pose proof (indicator_range _ lists (zip (fun high low => (high * digits + low)%Z) hs l) gs). lra.
Qed.


(** *** The difference of two *)

Definition both (z j : Z) : Z * Z := (Z.max z 0 + j, Z.max (- z) 0 + j)%Z.
(** The pairs of geometric variables whose difference is z are those of [both], one for each j. *)
Definition drawn (zs js : list Z) : list Z := (zip (fun z j => fst (both z j)) zs js ++ zip (fun z j => snd (both z j)) zs js)%list.
Definition noise' := noise base digits coins dlog dbelow.

Lemma drawn_difference : forall zs js m, length zs = m -> length js = m ->
  zip Z.sub (firstn m (drawn zs js)) (skipn m (drawn zs js)) = zs.
Proof.
  intros zs js m L L'. unfold drawn. set (a := zip (fun z j => fst (both z j)) zs js).
  assert (La : length a = m) by (unfold a; rewrite zip_length; congruence).
  rewrite firstn_app, skipn_app, La, Nat.sub_diag, <- La, firstn_all, skipn_all, firstn_O, app_nil_r. cbn [skipn app].
  unfold a. clear La a. revert js m L L'. induction zs as [|z zs IH]; intros [|j js] m L L'; subst m; try discriminate; cbn [zip]; [reflexivity|].
  cbn [length] in L'. f_equal; [cbn [both fst snd]; lia|]. apply (IH js (length zs)); [reflexivity|lia].
Qed.

Lemma drawn_once : forall zs js m, length zs = m -> length js = m ->
  js = zip (fun z g => g - Z.max z 0)%Z zs (firstn m (drawn zs js)).
Proof.
  intros zs js m L L'. unfold drawn. set (a := zip (fun z j => fst (both z j)) zs js).
  assert (La : length a = m) by (unfold a; rewrite zip_length; congruence).
  rewrite firstn_app, La, Nat.sub_diag, <- La, firstn_all, firstn_O, app_nil_r.
  unfold a. clear La a. revert js m L L'. induction zs as [|z zs IH]; intros [|j js] m L L'; subst m; try discriminate; cbn [zip]; [reflexivity|].
  cbn [length] in L'. f_equal; [cbn [both fst snd]; lia|]. apply (IH js (length zs)); [reflexivity|lia].
Qed.

Lemma drawn_length : forall zs js m, length zs = m -> length js = m -> length (drawn zs js) = (m + m)%nat.
Proof. intros. unfold drawn. rewrite app_length, !zip_length by congruence. lia. Qed.

Lemma map_zip : forall (f : Z -> R) (g : Z -> Z -> Z) l l', product_of (map f (zip g l l')) = product_of (zip (fun x y => f (g x y)) l l').
Proof. intros f g. induction l as [|x l IH]; intros [|y l']; cbn; auto. now rewrite IH. Qed.

Lemma product_app : forall l l', product_of (l ++ l') = product_of l * product_of l'.
Proof. induction l as [|x l IH]; intros l'; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma product_zip : forall (f g : Z -> Z -> R) l l',
  product_of (zip f l l') * product_of (zip g l l') = product_of (zip (fun x y => f x y * g x y) l l').
Proof. intros f g. induction l as [|x l IH]; intros [|y l']; cbn; try ring. rewrite <- IH. ring. Qed.

Definition pair_mass (n : nat) (z j : Z) : R := geo_mass n (fst (both z j)) * geo_mass n (snd (both z j)).

Lemma noise_law : forall n M zs,
  product_of (map (fun z => zsum 0 (2 * M + 1) (pair_mass n z)) zs) <= law lists (noise' n (length zs)) zs.
Proof.
  intros n M zs. set (m := length zs). set (box := repeat (Z.of_nat M) m).
  assert (Lb : length box = m) by apply repeat_length.
  unfold Draws.law, noise', noise. rewrite (E_bind base base_pos).
  apply Rle_trans with (E (geometric base digits coins dlog dbelow n (m + m)) (fun gs => sum_box box M (fun js => indicator lists gs (drawn zs js)))).
  - rewrite (E_sum_box base base_pos _ _ box M (fun js gs => indicator lists gs (drawn zs js))).
    apply Rle_trans with (sum_box box M (fun js => product_of (zip (pair_mass n) zs js))).
    + rewrite sum_box_product by exact Lb. right. unfold box. clear Lb. clear box. unfold m. clear m.
      induction zs as [|z zs IH]; cbn [map product_of length repeat zip]; [reflexivity|]. rewrite IH. f_equal. f_equal. lia.
    + apply sum_box_le. intros js B. apply in_box_length in B. assert (Lj : length js = m) by congruence.
      eapply Rle_trans; [|apply geometric_law; now apply drawn_length]. right.
      unfold drawn. rewrite map_app, product_app, !map_zip, product_zip. reflexivity.
  - apply E_le; [assumption|]. intros gs. cbn [Draws.E].
    destruct (lists (zip Z.sub (firstn m gs) (skipn m gs)) zs) as [Same|N].
    + rewrite Same, indicator_same.
      apply Rle_trans with (sum_box box M (fun js => indicator lists (zip (fun z g => g - Z.max z 0)%Z zs (firstn m gs)) js)); [|apply sum_box_indicator].
      apply sum_box_le. intros js B. apply in_box_length in B. assert (Lj : length js = m) by congruence.
      destruct (lists gs (drawn zs js)) as [->|X]; [|rewrite (indicator_other _ _ _ _ X); apply indicator_range].
      rewrite <- (drawn_once zs js m) by (reflexivity || assumption). rewrite !indicator_same. lra.
    + apply Rle_trans with (sum_box box M (fun _ => 0)); [|rewrite sum_box_zero; apply indicator_range].
      apply sum_box_le. intros js B. apply in_box_length in B. assert (Lj : length js = m) by congruence.
      right. apply indicator_other. intros ->. apply N. now apply drawn_difference.
Qed.

Lemma pair_sum : forall z k, zsum 0 k (fun j => geo (fst (both z j)) * geo (snd (both z j))) = mass rate z * (1 - ratio rate ^ (2 * k)).
Proof.
  intros z k. pose proof (ratio_range rate rate_pos) as Q. rewrite <- exp_power. fold (pw (Z.of_nat (2 * k))).
  assert (S : zsum 0 k (fun j => pw (j + j)) * (1 - ratio rate * ratio rate) = 1 - pw (Z.of_nat (2 * k))).
  { rewrite <- pw_1. induction k as [|k IH]; [cbn [zsum]; change (Z.of_nat (2 * 0)) with 0%Z; rewrite pw_0; ring|].
    rewrite zsum_last, Rmult_plus_distr_r, IH, Z.add_0_l.
    replace (Z.of_nat (2 * S k)) with (Z.of_nat (2 * k) + (1 + 1))%Z by lia. rewrite !(pw_plus _ (1 + 1)), (pw_plus 1 1).
    replace (Z.of_nat (2 * k)) with (Z.of_nat k + Z.of_nat k)%Z by lia. ring. }
  rewrite (zsum_ext _ _ _ (fun j => pw (j + j) * (pw (Z.abs z) * ((1 - ratio rate) * (1 - ratio rate))))).
  - rewrite zsum_scale. unfold mass. fold (pw (Z.abs z)). rewrite <- S. field. lra.
  - intros j. unfold geo, both. cbn [fst snd]. rewrite pw_1, !pw_plus.
    replace (Z.abs z) with (Z.max z 0 + Z.max (- z) 0)%Z by lia. rewrite pw_plus. ring.
Qed.

Lemma pair_mass_nonneg : forall n z j, 0 <= pair_mass n z j.
Proof. intros. apply Rmult_le_pos; apply geo_mass_nonneg. Qed.

Lemma noise_reaches : forall zs, reaches (fun n => law lists (noise' n (length zs)) zs) (product_of (map (mass rate) zs)).
Proof.
  intros zs. pose proof (ratio_range rate rate_pos) as Q.
  apply (reaches_sup _ (fun M => product_of (map (fun z => mass rate z * (1 - ratio rate ^ (2 * (2 * M + 1)))) zs))).
  - apply (reaches_product (fun M z => mass rate z * (1 - ratio rate ^ (2 * (2 * M + 1))))).
    + intros M z. pose proof (mass_pos rate z rate_pos). apply Rmult_le_pos; [lra|].
      assert (X : ratio rate ^ (2 * (2 * M + 1)) <= 1 ^ (2 * (2 * M + 1))) by (apply pow_incr; lra). rewrite pow1 in X. lra.
    + intros z _. left. apply mass_pos, rate_pos.
    + intros z _. rewrite <- (Rmult_1_l (mass rate z)).
      apply (reaches_le (fun M => (1 - ratio rate ^ (2 * (2 * M + 1))) * mass rate z)); [|intros; lra].
      apply reaches_scale; [left; apply mass_pos, rate_pos|].
      apply (reaches_power (ratio rate) ltac:(lra) (fun M => (2 * (2 * M + 1))%nat)). intros; lia.
  - intros M. apply (reaches_le (fun n => product_of (map (fun z => zsum 0 (2 * M + 1) (pair_mass n z)) zs))).
    + apply (reaches_product (fun n z => zsum 0 (2 * M + 1) (pair_mass n z))).
      * intros n z. apply zsum_nonneg. intros; apply pair_mass_nonneg.
      * intros z _. rewrite <- pair_sum. apply zsum_nonneg. intros; apply Rmult_le_pos; apply geo_nonneg.
      * intros z _. rewrite <- pair_sum. apply reaches_zsum_on. intros j Hj. unfold pair_mass, both. cbn [fst snd].
        apply (reaches_mult (fun n => geo_mass n (Z.max z 0 + j)) (fun n => geo_mass n (Z.max (- z) 0 + j)));
          try apply geo_nonneg; try (intros; apply geo_mass_nonneg); apply geo_reaches; lia.
    + intros n. apply noise_law.
Qed.

Definition add_noise' := add_noise base digits coins dlog dbelow.

Lemma add_noise_reaches : forall h out, length h = length out ->
  reaches (fun n => law lists (add_noise' n h) out) (likelihood rate h out).
Proof.
  intros h out L. set (zs := zip Z.sub out h). assert (Lz : length zs = length h) by (unfold zs; rewrite zip_length; congruence).
  replace (likelihood rate h out) with (product_of (map (mass rate) zs)).
  - apply (reaches_le (fun n => law lists (noise' n (length zs)) zs)); [apply noise_reaches|]. intros n.
    unfold add_noise', add_noise. rewrite Lz. unfold Draws.law at 2. rewrite (E_bind base base_pos). apply E_le; [assumption|]. intros a. cbn [Draws.E].
    destruct (lists a zs) as [->|N]; [|rewrite (indicator_other _ _ _ _ N); apply indicator_range].
    replace (zip Z.add h zs) with out; [rewrite !indicator_same; lra|]. unfold zs. clear -L. revert out L.
    induction h as [|x h IH]; intros [|y out] L; try discriminate; cbn [zip]; [reflexivity|]. f_equal; [lia|]. apply IH. now injection L.
  - unfold zs. clear -L. revert out L. induction h as [|x h IH]; intros [|y out] L; try discriminate; cbn [zip map product_of likelihood]; [reflexivity|].
    rewrite IH by now injection L. reflexivity.
Qed.

Lemma laws_most : forall h K n, sum_box h K (law lists (add_noise' n h)) <= E (add_noise' n h) (fun _ => 1).
Proof.
  intros h K n. unfold Draws.law. rewrite <- (E_sum_box base base_pos _ _ h K (fun o a => indicator lists a o)).
  apply E_le; [assumption|]. intros a. apply sum_box_indicator.
Qed.

Lemma box_mass : forall h, Un_cv (fun K => sum_box h K (likelihood rate h)) 1.
Proof.
  intros h e P. destruct (power_cv (mass_within rate) (length h) (mass_sums_to_one rate rate_pos) e P) as [N H].
  exists N. intros n Hn. rewrite sum_box_mass. now apply H.
Qed.

(** The more words, the nearer is the law of noisy values to the discrete Laplace mechanism's. *)
Theorem sampler_law : forall h out, length h = length out ->
  Un_cv (fun n => law lists (add_noise' n h) out) (likelihood rate h out).
Proof.
  intros h out L e P. destruct (add_noise_reaches h out L e P) as [N Lo].
  destruct (boxed h out L) as [K In]. destruct (box_mass h (e / 2) ltac:(lra)) as [K' Mass'].
  set (k := Nat.max K K'). specialize (In k ltac:(lia)). specialize (Mass' k ltac:(lia)). unfold R_dist in Mass'.
  apply Rabs_def2 in Mass'.
  set (other := fun (f : list Z -> R) o => (1 - indicator lists o out) * f o).
  assert (Split : forall f, sum_box h k f = sum_box h k (other f) + f out).
  { intros f. rewrite <- (sum_box_single h k out f In), <- sum_box_plus. apply sum_box_ext. intros o. unfold other. ring. }
  assert (Up : reaches (fun n => sum_box h k (other (law lists (add_noise' n h)))) (sum_box h k (other (likelihood rate h)))).
  { apply (reaches_sum_box h k (fun n => other (law lists (add_noise' n h)))). intros o Lo'. unfold other.
    apply (reaches_le (fun n => law lists (add_noise' n h) o * (1 - indicator lists o out))); [|intros; lra].
    rewrite (Rmult_comm (1 - _)). apply reaches_scale; [pose proof (indicator_range _ lists o out); lra|].
    apply add_noise_reaches. now symmetry. }
  destruct (Up (e / 2) ltac:(lra)) as [N' Hi]. exists (Nat.max N N'). intros n Hn.
  specialize (Lo n ltac:(lia)). specialize (Hi n ltac:(lia)). unfold R_dist. apply Rabs_def1; [|lra].
  pose proof (Split (likelihood rate h)). pose proof (Split (law lists (add_noise' n h))).
  pose proof (laws_most h k n). pose proof (E_most base base_pos _ (add_noise' n h) 1 ltac:(lra)). lra.
Qed.

(** What is not decided by then vanishes. *)
Theorem sampler_decides : forall h, Un_cv (fun n => E (add_noise' n h) (fun _ => 1)) 1.
Proof.
  intros h e P. destruct (box_mass h (e / 2) ltac:(lra)) as [K M]. specialize (M K ltac:(lia)). unfold R_dist in M. apply Rabs_def2 in M.
  assert (Up : reaches (fun n => sum_box h K (law lists (add_noise' n h))) (sum_box h K (likelihood rate h))).
  { apply (reaches_sum_box h K (fun n => law lists (add_noise' n h))). intros o Lo. apply add_noise_reaches. now symmetry. }
  destruct (Up (e / 2) ltac:(lra)) as [N Q]. exists N. intros n Hn. specialize (Q n Hn). unfold R_dist.
  pose proof (laws_most h K n). pose proof (E_most base base_pos _ (add_noise' n h) 1 ltac:(lra)). apply Rabs_def1; lra.
Qed.

End Law.


(** ** How many words are drawn at most *)

Lemma within_bind_on : forall A B (P : A -> Prop) n m (p : prog A) (q : A -> prog B),
  within n p -> returns P p -> (forall a, P a -> within m (q a)) -> within (n + m) (bind p q).
Proof.
  intros A B P n m p q H R Q. induction H as [n a|n|n f _ IH]; cbn [bind Nat.add].
  - apply (within_more _ m); [apply Q, R|lia].
  - constructor.
  - constructor. intros x. apply IH. apply R.
Qed.

Lemma within_then : forall A B n (p : prog A) (f : A -> B), within n p -> within n (bind p (fun a => Ret (f a))).
Proof.
  intros A B n p f H. rewrite <- (Nat.add_0_r n). apply within_bind; [exact H|]. intros a. constructor.
Qed.

Lemma within_refine : forall A base (decide : Z -> Z -> option A) fuel a n, within fuel (refine base decide fuel a n).
Proof.
  intros A base decide. induction fuel as [|fuel IH]; intros a n; cbn [refine]; destruct (decide a n); constructor. intros x. apply IH.
Qed.

Lemma within_words : forall m, within m (words m).
Proof.
  induction m as [|m IH]; cbn [words]; constructor. intros x. now apply within_then.
Qed.

Lemma within_each : forall A B k (q : A -> prog B) l, (forall x, within k (q x)) -> within (length l * k) (each q l).
Proof.
  intros A B k q l H. induction l as [|x l IH]; cbn [each length Nat.mul]; [constructor|].
  apply within_bind; [apply H|]. intros b. now apply within_then.
Qed.

Lemma within_words_each : forall B k (q : Z -> prog B) m, (forall x, within k (q x)) -> within (m + m * k) (bind (words m) (each q)).
Proof.
  intros B k q m H. apply (within_bind_on _ _ _ _ _ _ _ (within_words m) (returns_words m)). intros l <-. now apply within_each.
Qed.

Lemma unset_most : forall outs, (unset outs <= length outs)%nat.
Proof. induction outs as [|[d|] outs IH]; cbn; lia. Qed.

Lemma within_lows : forall base coins dbelow tries fuel m most, (m <= most)%nat ->
  within (tries * (most + most * fuel)) (lows base coins dbelow tries fuel m).
Proof.
  intros base coins dbelow. induction tries as [|t IH]; intros fuel [|m] most L; cbn [lows]; try constructor.
  set (n := S m) in *. assert (n * fuel <= most * fuel)%nat by now apply Nat.mul_le_mono_r.
  replace (S t * (most + most * fuel))%nat with ((most + most * fuel) + t * (most + most * fuel))%nat by lia.
  apply (within_bind_on _ _ _ _ _ _ _ (within_more _ (n + n * fuel) (most + most * fuel) _ (within_words_each _ fuel _ n
    ltac:(intros x; apply within_then, within_refine))
    ltac:(lia)) (returns_words_each _ (coin base coins dbelow fuel) n)).
  intros outs O. apply within_then, IH. pose proof (unset_most outs). lia.
Qed.

Lemma within_add_noise : forall base digits coins dlog dbelow fuel h,
  exists k, within k (add_noise base digits coins dlog dbelow fuel h).
Proof.
  intros base digits coins dlog dbelow fuel h. set (m := (length h + length h)%nat).
  exists ((m + m * fuel) + (fuel * (m + m * fuel)))%nat. unfold add_noise, noise, geometric.
  set (k := (m + m * fuel)%nat). apply within_then, within_then, within_bind.
  - apply within_words_each. intros x. apply within_refine.
  - intros hs. apply within_then. destruct (digits =? 1)%Z; [constructor|]. now apply within_lows.
Qed.

(** ** The sampler with exact decisions, and with a fast way in front of them *)

Definition first_of {A} (fast exact : Z -> Z -> option A) (a n : Z) : option A :=
  match fast a n with Some v => Some v | None => exact a n end.

Lemma first_sound : forall A fast exact (low high : A -> R), sound A fast low high -> sound A exact low high ->
  sound A (first_of fast exact) low high.
Proof.
  intros A fast exact low high F X a n v H. unfold first_of. destruct (fast a n) eqn:D; [|now apply X].
  intros Eq. injection Eq as ->. now apply F.
Qed.

Lemma first_complete : forall A (dec : forall x y : A, {x = y} + {x <> y}) fast exact (low high : A -> R) v,
  sound A fast low high -> apart A low high -> complete A exact low high v -> complete A (first_of fast exact) low high v.
Proof.
  intros A dec fast exact low high v F Ap X a n H L U. unfold first_of. destruct (fast a n) as [v'|] eqn:D; [|now apply X].
  destruct (dec v' v) as [->|N]; [reflexivity|]. exfalso. destruct (F a n v' H D) as [L' U'].
  pose proof (ends a n ltac:(lia)). pose proof (width_pos n ltac:(lia)). destruct (Ap v' v N); lra.
Qed.

(** Values with noise of scale num/den, words of [base] = [digits] * [coins]. *)
Definition exact_log (guard num den digits : Z) : Z -> Z -> option Z := decide_log guard num (den * digits).
Definition exact_sampler (guard base digits coins num den : Z) : nat -> list Z -> prog (list Z) :=
  add_noise base digits coins (exact_log guard num den digits) (decide_below guard num den digits).
Definition fast_sampler (fast : Z -> Z -> option Z) (guard base digits coins num den : Z) : nat -> list Z -> prog (list Z) :=
  add_noise base digits coins (first_of fast (exact_log guard num den digits)) (decide_below guard num den digits).

(** The share of lists of k words on which a program returns [out]. *)
Definition share (base : Z) (k : nat) (p : prog (list Z)) (out : list Z) : R :=
  E base (words k) (fun ws => match run p ws with Some (found, _) => indicator lists found out | None => 0 end).

(** A way that answers only where it is right, before the exact one, changes no law: the form in floats. *)
Theorem fast_sampler_law : forall fast guard base digits coins num den h out,
  (1 <= guard)%Z -> (2 <= base)%Z -> (0 < digits)%Z -> (0 < coins)%Z -> base = (digits * coins)%Z -> (0 < num)%Z -> (0 < den)%Z ->
  sound Z fast (log_low num (den * digits)) (log_high num (den * digits)) -> length h = length out ->
  Un_cv (fun fuel => law base lists (fast_sampler fast guard base digits coins num den fuel h) out)
        (likelihood (IZR den / IZR num) h out).
Proof.
  intros fast guard base digits coins num den h out G B D C W N Dn F L. assert (Dd : (0 < den * digits)%Z) by nia.
  apply sampler_law; auto.
  - apply first_sound; [assumption|]. now apply decide_log_sound.
  - intros v V. apply first_complete; [exact Z.eq_dec|assumption|now apply log_apart|]. now apply decide_log_complete.
  - intros r R. apply decide_below_sound; (assumption || lia).
  - intros r v R. apply decide_below_complete; (assumption || lia).
Qed.

Theorem exact_sampler_law : forall guard base digits coins num den h out,
  (1 <= guard)%Z -> (2 <= base)%Z -> (0 < digits)%Z -> (0 < coins)%Z -> base = (digits * coins)%Z -> (0 < num)%Z -> (0 < den)%Z ->
  length h = length out ->
  Un_cv (fun fuel => law base lists (exact_sampler guard base digits coins num den fuel h) out)
        (likelihood (IZR den / IZR num) h out).
Proof.
  intros guard base digits coins num den h out G B D C W N Dn L. assert (Dd : (0 < den * digits)%Z) by nia.
  apply sampler_law; auto.
  - now apply decide_log_sound.
  - intros v V. now apply decide_log_complete.
  - intros r R. apply decide_below_sound; (assumption || lia).
  - intros r v R. apply decide_below_complete; (assumption || lia).
Qed.

(** The form in floats: a fast way that answers only as the floats of [float_answer] do. *)
Theorem float_sampler_law : forall fast guard base digits coins num den h out,
  (1 <= guard)%Z -> (2 <= base)%Z -> (0 < digits)%Z -> (0 < coins)%Z -> base = (digits * coins)%Z -> (0 < num)%Z -> (0 < den)%Z ->
  (forall w n k, fast w n = Some k -> float_answer num (den * digits) w n k) -> length h = length out ->
  Un_cv (fun fuel => law base lists (fast_sampler fast guard base digits coins num den fuel h) out)
        (likelihood (IZR den / IZR num) h out).
Proof.
  intros fast guard base digits coins num den h out G B D C W N Dn F L. apply fast_sampler_law; auto.
  intros a n k _ A. apply float_path_right; [assumption|nia|now apply F].
Qed.

(** The same in words alone: of all lists of enough words, the share on which the sampler returns [out] is as near to the
    likelihood as one likes. *)
Theorem exact_sampler_share : forall guard base digits coins num den h out e,
  (1 <= guard)%Z -> (2 <= base)%Z -> (0 < digits)%Z -> (0 < coins)%Z -> base = (digits * coins)%Z -> (0 < num)%Z -> (0 < den)%Z ->
  length h = length out -> 0 < e ->
  exists fuel k, Rabs (share base k (exact_sampler guard base digits coins num den fuel h) out - likelihood (IZR den / IZR num) h out) < e.
Proof.
  intros guard base digits coins num den h out e G B D C W N Dn L P.
  destruct (exact_sampler_law guard base digits coins num den h out G B D C W N Dn L e P) as [fuel H].
  destruct (within_add_noise base digits coins (exact_log guard num den digits) (decide_below guard num den digits) fuel h) as [k K].
  exists fuel, k. specialize (H fuel (Nat.le_refl fuel)). unfold R_dist, law in H. unfold share, exact_sampler in *.
  rewrite (law_is_a_share base ltac:(lia) _ _ (fun found => indicator lists found out) k K) in H. exact H.
Qed.
