(** Each slot's mass sums to one, so that [Pr] is a probability. *)

From Coq Require Import Reals ZArith List Lra Lia.
Require Import Laplace.
Import ListNotations.
Open Scope R_scope.

(** The sum of g over n integers from a on; over all values that lie within n of a histogram; and of several. *)
Fixpoint zsum (a : Z) (n : nat) (g : Z -> R) : R := match n with O => 0 | S n' => g a + zsum (a + 1) n' g end.
Fixpoint sum_box (h : list Z) (n : nat) (g : list Z -> R) : R :=
  match h with
  | [] => g []
  | x :: h' => zsum (x - Z.of_nat n) (2 * n + 1) (fun z => sum_box h' n (fun out => g (z :: out)))
  end.
Fixpoint sum_boxes (hs : list (list Z)) (n : nat) (g : list (list Z) -> R) : R :=
  match hs with [] => g [] | h :: hs' => sum_box h n (fun o => sum_boxes hs' n (fun os => g (o :: os))) end.

Lemma zsum_ext : forall n a f g, (forall z, f z = g z) -> zsum a n f = zsum a n g.
Proof. induction n as [|n IH]; intros a f g E; cbn; [reflexivity|]. now rewrite E, (IH _ f g E). Qed.

Lemma zsum_scale : forall n a c f, zsum a n (fun z => f z * c) = zsum a n f * c.
Proof. induction n as [|n IH]; intros; cbn; [ring|]. rewrite IH. ring. Qed.

Lemma zsum_last : forall n a f, zsum a (S n) f = zsum a n f + f (a + Z.of_nat n)%Z.
Proof.
  induction n as [|n IH]; intros a f; [cbn; rewrite Z.add_0_r; ring|].
  change (zsum a (S (S n)) f) with (f a + zsum (a + 1) (S n) f). rewrite IH. cbn [zsum].
  replace (a + 1 + Z.of_nat n)%Z with (a + Z.of_nat (S n))%Z by lia. ring.
Qed.

Lemma zsum_mass : forall r n x, zsum (x - Z.of_nat n) (2 * n + 1) (fun z => mass r (z - x)) = mass_within r n.
Proof.
  intros r. induction n as [|n IH]; intros x.
  - cbn. rewrite Z.sub_0_r, Z.sub_diag. ring.
  - replace (2 * S n + 1)%nat with (S (S (2 * n + 1))) by lia. rewrite zsum_last.
    change (zsum (x - Z.of_nat (S n)) (S (2 * n + 1)) ?f) with
      (f (x - Z.of_nat (S n))%Z + zsum (x - Z.of_nat (S n) + 1) (2 * n + 1) f).
    replace (x - Z.of_nat (S n) + 1)%Z with (x - Z.of_nat n)%Z by lia. rewrite IH. cbn [mass_within].
    replace (x - Z.of_nat (S n) - x)%Z with (- Z.of_nat (S n))%Z by lia.
    replace (x - Z.of_nat (S n) + Z.of_nat (S (2 * n + 1)) - x)%Z with (Z.of_nat (S n)) by lia. ring.
Qed.

Lemma sum_box_ext : forall h n f g, (forall o, f o = g o) -> sum_box h n f = sum_box h n g.
Proof. induction h as [|x h IH]; intros n f g E; cbn; [apply E|]. apply zsum_ext. intros z. apply IH. intros o. apply E. Qed.

Lemma sum_box_scale : forall h n c f, sum_box h n (fun o => f o * c) = sum_box h n f * c.
Proof.
  induction h as [|x h IH]; intros n c f; cbn; [reflexivity|]. rewrite <- zsum_scale. apply zsum_ext. intros z.
  apply (IH n c (fun out => f (z :: out))).
Qed.

Lemma sum_box_mass : forall r h n, sum_box h n (likelihood r h) = mass_within r n ^ length h.
Proof.
  intros r h n. induction h as [|x h IH]; cbn [sum_box likelihood length pow]; [reflexivity|].
  rewrite (zsum_ext _ _ _ (fun z => mass r (z - x) * mass_within r n ^ length h)).
  - rewrite zsum_scale, zsum_mass. reflexivity.
  - intros z. rewrite <- IH, Rmult_comm, <- sum_box_scale. apply sum_box_ext. intros o. ring.
Qed.

Fixpoint product_within (rates : list R) (hs : list (list Z)) (n : nat) : R :=
  match rates, hs with
  | r :: rates', h :: hs' => mass_within r n ^ length h * product_within rates' hs' n
  | _, _ => 1
  end.

Lemma sum_boxes_mass : forall rates hs n, length rates = length hs ->
  sum_boxes hs n (slot_likelihood rates hs) = product_within rates hs n.
Proof.
  induction rates as [|r rates IH]; intros [|h hs] n L; cbn in L; try discriminate; cbn [sum_boxes product_within]; [reflexivity|].
  rewrite <- (IH hs n ltac:(lia)), <- sum_box_mass, <- sum_box_scale. apply sum_box_ext. intros o.
  cbn [slot_likelihood]. clear. set (g := slot_likelihood rates hs). generalize g. clear g. intros g.
  generalize (likelihood r h o). intros c. revert g. induction hs as [|h' hs IH]; intros g; cbn; [reflexivity|].
  rewrite (sum_box_ext h' n _ (fun x => c * sum_boxes hs n (fun os => g (x :: os)))).
  - rewrite Rmult_comm, <- sum_box_scale. apply sum_box_ext. intros x. ring.
  - intros x. apply (IH (fun os => g (x :: os))).
Qed.

Lemma power_cv : forall u k, Un_cv u 1 -> Un_cv (fun n => u n ^ k) 1.
Proof.
  intros u k H. induction k as [|k IH].
  - intros eps E. exists O. intros n _. cbn. unfold R_dist. rewrite Rminus_diag_eq, Rabs_R0; auto.
  - replace 1 with (1 * 1) by ring. exact (CV_mult _ _ _ _ H IH).
Qed.

(** The mass of the outputs within n of the histograms tends to one. *)
Theorem step_mass_sums_to_one : forall rates hs, (forall r, In r rates -> 0 < r) -> length rates = length hs ->
  Un_cv (fun n => sum_boxes hs n (slot_likelihood rates hs)) 1.
Proof.
  intros rates hs P L.
  assert (H : Un_cv (product_within rates hs) 1).
  { clear L. revert hs. induction rates as [|r rates IH]; intros hs.
    - intros eps E. exists O. intros n _. cbn. unfold R_dist. rewrite Rminus_diag_eq, Rabs_R0; auto.
    - destruct hs as [|h hs].
      + intros eps E. exists O. intros n _. cbn. unfold R_dist. rewrite Rminus_diag_eq, Rabs_R0; auto.
      + replace 1 with (1 * 1) by ring. cbn [product_within].
        apply (CV_mult (fun n => mass_within r n ^ length h) (product_within rates hs)).
        * apply power_cv, mass_sums_to_one, P. now left.
        * apply IH. intros; apply P; now right. }
  intros eps E. destruct (H eps E) as [N Q]. exists N. intros n Hn. rewrite sum_boxes_mass by assumption. now apply Q.
Qed.
