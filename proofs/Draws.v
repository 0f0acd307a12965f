(** Programs that draw random words, what they return on average, and a uniform number that is refined until it is decided. *)

From Coq Require Import Reals ZArith List Lra Lia.
Require Import Laplace Mass.
Import ListNotations.
Open Scope R_scope.

(** ** Programs over words 0 … base - 1 *)

(** [Fail] is a program whose fuel is spent; the running program goes on there. *)
Inductive prog (A : Type) : Type := Ret (a : A) | Fail | Draw (f : Z -> prog A).
Arguments Ret {A} a.
Arguments Fail {A}.
Arguments Draw {A} f.

Fixpoint bind {A B} (p : prog A) (q : A -> prog B) : prog B :=
  match p with Ret a => q a | Fail => Fail | Draw f => Draw (fun x => bind (f x) q) end.

(** On given words: the result, and the words that are left. *)
Fixpoint run {A} (p : prog A) (words : list Z) : option (A * list Z) :=
  match p, words with
  | Ret a, _ => Some (a, words)
  | Draw f, x :: rest => run (f x) rest
  | _, _ => None
  end.

Fixpoint words (m : nat) : prog (list Z) :=
  match m with O => Ret [] | S m' => Draw (fun x => bind (words m') (fun xs => Ret (x :: xs))) end.
Fixpoint each {A B} (q : A -> prog B) (l : list A) : prog (list B) :=
  match l with [] => Ret [] | x :: l' => bind (q x) (fun b => bind (each q l') (fun bs => Ret (b :: bs))) end.

(** A uniform number is in [a/n, (a+1)/n]; words are added until [decide] tells what is asked of it. *)
Fixpoint refine {A} (base : Z) (decide : Z -> Z -> option A) (fuel : nat) (a n : Z) : prog A :=
  match decide a n with
  | Some v => Ret v
  | None => match fuel with O => Fail | S f => Draw (fun x => refine base decide f (a * base + x) (n * base)) end
  end.

Definition indicator {A} (dec : forall x y : A, {x = y} + {x <> y}) (a b : A) : R := if dec a b then 1 else 0.

Lemma indicator_range : forall A dec (a b : A), 0 <= indicator dec a b <= 1.
Proof. intros. unfold indicator. destruct (dec a b); lra. Qed.

Lemma indicator_same : forall A dec (a : A), indicator dec a a = 1.
Proof. intros. unfold indicator. destruct (dec a a); [reflexivity|contradiction]. Qed.

Lemma indicator_other : forall A dec (a b : A), a <> b -> indicator dec a b = 0.
Proof. intros. unfold indicator. destruct (dec a b); [contradiction|reflexivity]. Qed.

Lemma zsum_le : forall n a f g, (forall z, (a <= z < a + Z.of_nat n)%Z -> f z <= g z) -> zsum a n f <= zsum a n g.
Proof.
  induction n as [|n IH]; intros a f g H; cbn [zsum]; [lra|].
  apply Rplus_le_compat; [apply H; lia|apply IH; intros z Hz; apply H; lia].
Qed.

Lemma zsum_eq : forall n a f g, (forall z, (a <= z < a + Z.of_nat n)%Z -> f z = g z) -> zsum a n f = zsum a n g.
Proof.
  induction n as [|n IH]; intros a f g H; cbn [zsum]; [reflexivity|].
  rewrite (H a) by lia. f_equal. apply IH. intros z Hz. apply H. lia.
Qed.

Lemma zsum_plus : forall n a f g, zsum a n (fun z => f z + g z) = zsum a n f + zsum a n g.
Proof. induction n as [|n IH]; intros; cbn [zsum]; [ring|]. rewrite IH. ring. Qed.

Lemma zsum_const : forall n a c, zsum a n (fun _ => c) = INR n * c.
Proof. induction n as [|n IH]; intros; [cbn; ring|]. rewrite S_INR. cbn [zsum]. rewrite IH. ring. Qed.

Lemma zsum_telescope : forall n a (F : Z -> R), zsum a n (fun z => F (z + 1)%Z - F z) = F (a + Z.of_nat n)%Z - F a.
Proof.
  induction n as [|n IH]; intros a F; [cbn [zsum]; rewrite Z.add_0_r; ring|].
  cbn [zsum]. rewrite IH. replace (a + 1 + Z.of_nat n)%Z with (a + Z.of_nat (S n))%Z by lia. ring.
Qed.

Lemma zsum_shift : forall n a b f, zsum (a + b) n f = zsum a n (fun z => f (z + b)%Z).
Proof.
  induction n as [|n IH]; intros a b f; cbn [zsum]; [reflexivity|]. f_equal.
  replace (a + b + 1)%Z with (a + 1 + b)%Z by ring. apply IH.
Qed.

Lemma zsum_app : forall n m a f, zsum a (n + m) f = zsum a n f + zsum (a + Z.of_nat n) m f.
Proof.
  induction n as [|n IH]; intros m a f; [cbn; rewrite Z.add_0_r; ring|].
  cbn [zsum Nat.add]. rewrite IH. replace (a + 1 + Z.of_nat n)%Z with (a + Z.of_nat (S n))%Z by lia. ring.
Qed.

(** A sum over words is one over digits and coins. *)
Lemma zsum_split : forall d c f, zsum 0 (d * c) f = zsum 0 d (fun r => zsum 0 c (fun x => f (r * Z.of_nat c + x)%Z)).
Proof.
  induction d as [|d IH]; intros c f; [reflexivity|].
  replace (S d * c)%nat with (d * c + c)%nat by lia. rewrite zsum_app, IH, zsum_last. f_equal.
  replace (0 + Z.of_nat (d * c))%Z with (0 + Z.of_nat d * Z.of_nat c)%Z by lia.
  rewrite zsum_shift. apply zsum_ext. intros z. f_equal. lia.
Qed.

Lemma zsum_single : forall n a b f, (a <= b < a + Z.of_nat n)%Z ->
  zsum a n (fun z => indicator Z.eq_dec z b * f z) = f b.
Proof.
  induction n as [|n IH]; intros a b f H; [lia|]. cbn [zsum]. destruct (Z.eq_dec a b) as [->|N].
  - rewrite indicator_same, (zsum_eq n (b + 1) _ (fun _ => 0)); [rewrite zsum_const; ring|].
    intros z Hz. rewrite indicator_other by lia. ring.
  - rewrite (indicator_other _ _ a b N), IH by lia. ring.
Qed.

Lemma zsum_nonneg : forall n a f, (forall z, (a <= z < a + Z.of_nat n)%Z -> 0 <= f z) -> 0 <= zsum a n f.
Proof.
  intros n a f H. apply Rle_trans with (zsum a n (fun _ => 0)); [rewrite zsum_const; lra|]. now apply zsum_le.
Qed.

Section Words.

Variable base : Z.
Hypothesis base_pos : (0 < base)%Z.

(** The mean over a uniform word. *)
Definition mean (g : Z -> R) : R := zsum 0 (Z.to_nat base) g / IZR base.

Lemma base_R : 0 < IZR base.
Proof. now apply IZR_lt. Qed.

Lemma base_INR : INR (Z.to_nat base) = IZR base.
Proof. rewrite INR_IZR_INZ, Z2Nat.id by lia. reflexivity. Qed.

Lemma mean_ext : forall f g, (forall x, (0 <= x < base)%Z -> f x = g x) -> mean f = mean g.
Proof. intros f g H. unfold mean. f_equal. apply zsum_eq. intros z Hz. apply H. lia. Qed.

Lemma mean_le : forall f g, (forall x, (0 <= x < base)%Z -> f x <= g x) -> mean f <= mean g.
Proof.
  intros f g H. unfold mean, Rdiv. pose proof base_R. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|].
  apply zsum_le. intros z Hz. apply H. lia.
Qed.

Lemma mean_scale : forall c f, mean (fun x => f x * c) = mean f * c.
Proof. intros. unfold mean. rewrite zsum_scale. field. pose proof base_R. lra. Qed.

Lemma mean_plus : forall f g, mean (fun x => f x + g x) = mean f + mean g.
Proof. intros. unfold mean. rewrite zsum_plus. field. pose proof base_R. lra. Qed.

Lemma mean_const : forall c, mean (fun _ => c) = c.
Proof. intros. unfold mean. rewrite zsum_const, base_INR. field. pose proof base_R. lra. Qed.

(** What a program returns on average, [Fail] counting as 0; and how likely it returns a. *)
Fixpoint E {A} (p : prog A) (g : A -> R) : R :=
  match p with Ret a => g a | Fail => 0 | Draw f => mean (fun x => E (f x) g) end.
Definition law {A} (dec : forall x y : A, {x = y} + {x <> y}) (p : prog A) (b : A) : R := E p (fun a => indicator dec a b).

Lemma E_ext : forall A (p : prog A) f g, (forall a, f a = g a) -> E p f = E p g.
Proof. intros A p f g H. induction p as [a| |q IH]; cbn; [apply H|reflexivity|]. apply mean_ext. intros x _. apply IH. Qed.

Lemma E_le : forall A (p : prog A) f g, (forall a, f a <= g a) -> E p f <= E p g.
Proof. intros A p f g H. induction p as [a| |q IH]; cbn; [apply H|lra|]. apply mean_le. intros x _. apply IH. Qed.

Lemma E_scale : forall A (p : prog A) c f, E p (fun a => f a * c) = E p f * c.
Proof.
  intros A p c f. induction p as [a| |q IH]; cbn; [reflexivity|ring|]. rewrite <- mean_scale.
  apply mean_ext. intros x _. apply IH.
Qed.

Lemma E_plus : forall A (p : prog A) f g, E p (fun a => f a + g a) = E p f + E p g.
Proof.
  intros A p f g. induction p as [a| |q IH]; cbn; [reflexivity|ring|]. rewrite <- mean_plus.
  apply mean_ext. intros x _. apply IH.
Qed.

Lemma E_zero : forall A (p : prog A), E p (fun _ => 0) = 0.
Proof. intros. rewrite (E_ext _ _ _ (fun a => 0 * 0)) by (intros; ring). rewrite E_scale. ring. Qed.

Lemma E_nonneg : forall A (p : prog A) f, (forall a, 0 <= f a) -> 0 <= E p f.
Proof. intros A p f H. rewrite <- (E_zero A p). now apply E_le. Qed.

Lemma E_most : forall A (p : prog A) c, 0 <= c -> E p (fun _ => c) <= c.
Proof.
  intros A p c H. induction p as [a| |q IH]; cbn; [lra|lra|].
  apply Rle_trans with (mean (fun _ => c)); [apply mean_le; intros x _; apply IH|rewrite mean_const; lra].
Qed.

Lemma E_bind : forall A B (p : prog A) (q : A -> prog B) f, E (bind p q) f = E p (fun a => E (q a) f).
Proof. intros A B p q f. induction p as [a| |g IH]; cbn; [reflexivity|reflexivity|]. apply mean_ext. intros x _. apply IH. Qed.

Lemma E_zsum : forall A (p : prog A) n a (f : Z -> A -> R), E p (fun b => zsum a n (fun z => f z b)) = zsum a n (fun z => E p (f z)).
Proof.
  intros A p. induction n as [|n IH]; intros a f; cbn [zsum]; [apply E_zero|]. rewrite E_plus, IH. reflexivity.
Qed.

Lemma E_sum_box : forall A (p : prog A) h n (f : list Z -> A -> R),
  E p (fun b => sum_box h n (fun o => f o b)) = sum_box h n (fun o => E p (f o)).
Proof.
  intros A p. induction h as [|x h IH]; intros n f; cbn [sum_box]; [reflexivity|].
  rewrite E_zsum. apply zsum_ext. intros z. apply (IH n (fun o => f (z :: o))).
Qed.

Lemma law_range : forall A dec (p : prog A) b, 0 <= law dec p b <= 1.
Proof.
  intros A dec p b. unfold law. split; [apply E_nonneg; intros; apply indicator_range|].
  apply Rle_trans with (E p (fun _ => 1)); [apply E_le; intros; apply indicator_range|apply E_most; lra].
Qed.

(** *** The law is a share of lists of words *)

Inductive within {A} : nat -> prog A -> Prop :=
| within_ret : forall n a, within n (Ret a)
| within_fail : forall n, within n Fail
| within_draw : forall n f, (forall x, within n (f x)) -> within (S n) (Draw f).

Lemma within_more : forall A n m (p : prog A), within n p -> (n <= m)%nat -> within m p.
Proof.
  intros A n m p H. revert m. induction H as [n a|n|n f _ IH]; intros m L; try constructor.
  destruct m as [|m]; [lia|]. constructor. intros x. apply IH. lia.
Qed.

Lemma within_bind : forall A B n m (p : prog A) (q : A -> prog B),
  within n p -> (forall a, within m (q a)) -> within (n + m) (bind p q).
Proof.
  intros A B n m p q H Q. induction H as [n a|n|n f _ IH]; cbn [bind Nat.add].
  - apply (within_more _ m); [apply Q|lia].
  - constructor.
  - constructor. exact IH.
Qed.

(** Of all lists of n words, the share on which a program returns a; n words suffice for all of its draws. *)
Theorem law_is_a_share : forall A (p : prog A) g n, within n p ->
  E p g = E (words n) (fun ws => match run p ws with Some (a, _) => g a | None => 0 end).
Proof.
  intros A p g n H. induction H as [n a|n|n f _ IH].
  - cbn [E]. induction n as [|n IHn]; [reflexivity|]. cbn [words E].
    transitivity (mean (fun _ => g a)); [now rewrite mean_const|]. apply mean_ext. intros x _.
    rewrite E_bind. etransitivity; [exact IHn|]. apply E_ext. intros ws. reflexivity.
  - cbn [E]. rewrite (E_ext _ _ _ (fun _ => 0)); [symmetry; apply E_zero|]. intros ws. now destruct ws.
  - cbn [E words]. apply mean_ext. intros x _. rewrite IH, E_bind. apply E_ext. intros ws. reflexivity.
Qed.

(** *** Products: what is drawn one after another is independent *)

Fixpoint product {A} (fs : list (A -> R)) (l : list A) : R :=
  match fs, l with
  | [], [] => 1
  | f :: fs', a :: l' => f a * product fs' l'
  | _, _ => 0
  end.
Fixpoint product_of (l : list R) : R := match l with [] => 1 | x :: l' => x * product_of l' end.

Lemma E_each : forall A B (q : A -> prog B) l fs, E (each q l) (product fs) = product (map (fun f x => E (q x) f) fs) l.
Proof.
  intros A B q. induction l as [|x l IH]; intros [|f fs]; cbn [each product map].
  - reflexivity.
  - reflexivity.
  - rewrite E_bind. rewrite (E_ext _ _ _ (fun _ => 0)); [apply E_zero|]. intros b. rewrite E_bind. cbn. apply E_zero.
  - rewrite E_bind, <- IH, <- E_scale. apply E_ext. intros b. rewrite E_bind. cbn.
    rewrite Rmult_comm, <- E_scale. apply E_ext. intros bs. ring.
Qed.

Lemma E_words : forall m (hs : list (Z -> R)), length hs = m -> E (words m) (product hs) = product_of (map mean hs).
Proof.
  induction m as [|m IH]; intros [|h hs] L; try discriminate; [reflexivity|]. cbn [words E map product_of].
  injection L as L. rewrite <- (IH hs L), <- mean_scale. apply mean_ext. intros x _. rewrite E_bind. cbn.
  rewrite Rmult_comm, <- E_scale. apply E_ext. intros xs. ring.
Qed.

(** One word for each of m results, and further words for each in turn: as if each were drawn alone. *)
Theorem E_words_each : forall B (q : Z -> prog B) m fs, length fs = m ->
  E (bind (words m) (each q)) (product fs) = product_of (map (fun f => mean (fun x => E (q x) f)) fs).
Proof.
  intros B q m fs L. rewrite E_bind. rewrite (E_ext _ _ _ (product (map (fun f x => E (q x) f) fs))).
  - rewrite E_words by now rewrite map_length. rewrite map_map. reflexivity.
  - intros xs. apply E_each.
Qed.

Lemma indicator_list : forall A (dec : forall x y : A, {x = y} + {x <> y}) ks l,
  indicator (list_eq_dec dec) l ks = product (map (fun k a => indicator dec a k) ks) l.
Proof.
  intros A dec. induction ks as [|k ks IH]; intros [|a l]; cbn [map product].
  - apply indicator_same.
  - apply indicator_other. discriminate.
  - apply indicator_other. discriminate.
  - rewrite <- IH. destruct (dec a k) as [->|N].
    + rewrite indicator_same, Rmult_1_l. destruct (list_eq_dec dec l ks) as [->|N]; [now rewrite !indicator_same|].
      rewrite !indicator_other; [reflexivity|exact N|]. intros H. apply N. now injection H.
    + rewrite (indicator_other _ dec a k N), Rmult_0_l. apply indicator_other. intros H. apply N. now injection H.
Qed.

(** ** A uniform number, refined *)

Definition clamp (l h x : R) : R := Rmax l (Rmin h x).

Lemma clamp_mono : forall l h x y, x <= y -> clamp l h x <= clamp l h y.
Proof. intros. unfold clamp, Rmax, Rmin. repeat destruct Rle_dec; lra. Qed.

Lemma clamp_lipschitz : forall l h x y, x <= y -> clamp l h y - clamp l h x <= y - x.
Proof. intros. unfold clamp, Rmax, Rmin. repeat destruct Rle_dec; lra. Qed.

(** Of the interval [a/n, (a+1)/n], the part that is in [l, h]. *)
Definition part (l h : R) (a n : Z) : R := IZR n * (clamp l h (IZR (a + 1) / IZR n) - clamp l h (IZR a / IZR n)).

Lemma ends : forall a n, (0 < n)%Z -> IZR (a + 1) / IZR n = IZR a / IZR n + 1 / IZR n.
Proof. intros a n H. apply IZR_lt in H. rewrite plus_IZR. field. lra. Qed.

Lemma width_pos : forall n, (0 < n)%Z -> 0 < 1 / IZR n.
Proof. intros n H. apply IZR_lt in H. unfold Rdiv. rewrite Rmult_1_l. now apply Rinv_0_lt_compat. Qed.

Lemma part_range : forall l h a n, (0 < n)%Z -> 0 <= part l h a n <= 1.
Proof.
  intros l h a n H. unfold part. pose proof (ends a n H) as W. pose proof (width_pos n H).
  assert (P : 0 < IZR n) by now apply IZR_lt.
  pose proof (clamp_mono l h (IZR a / IZR n) (IZR (a + 1) / IZR n) ltac:(lra)).
  pose proof (clamp_lipschitz l h (IZR a / IZR n) (IZR (a + 1) / IZR n) ltac:(lra)).
  split; [apply Rmult_le_pos; lra|].
  replace 1 with (IZR n * (1 / IZR n)) by (field; lra). apply Rmult_le_compat_l; lra.
Qed.

Lemma part_whole : forall l h a n, (0 < n)%Z -> l <= IZR a / IZR n -> IZR (a + 1) / IZR n <= h -> part l h a n = 1.
Proof.
  intros l h a n H L U. unfold part. pose proof (ends a n H) as W. pose proof (width_pos n H).
  assert (P : 0 < IZR n) by now apply IZR_lt.
  replace (clamp l h (IZR (a + 1) / IZR n)) with (IZR (a + 1) / IZR n)
    by (unfold clamp, Rmax, Rmin; repeat destruct Rle_dec; lra).
  replace (clamp l h (IZR a / IZR n)) with (IZR a / IZR n) by (unfold clamp, Rmax, Rmin; repeat destruct Rle_dec; lra).
  rewrite W. field. lra.
Qed.

Lemma part_none : forall l h a n, (0 < n)%Z -> IZR (a + 1) / IZR n <= l \/ h <= IZR a / IZR n \/ h <= l -> part l h a n = 0.
Proof.
  intros l h a n H O. unfold part. pose proof (ends a n H) as W. pose proof (width_pos n H).
  replace (clamp l h (IZR (a + 1) / IZR n)) with (clamp l h (IZR a / IZR n)); [ring|].
  unfold clamp, Rmax, Rmin; repeat destruct Rle_dec; lra.
Qed.

Lemma part_additive : forall l h a n, (0 < n)%Z -> mean (fun x => part l h (a * base + x) (n * base)) = part l h a n.
Proof.
  intros l h a n H. pose proof base_R as P. assert (Q : 0 < IZR n) by now apply IZR_lt. unfold mean.
  rewrite (zsum_ext _ _ _ (fun x => (clamp l h (IZR (a * base + (x + 1)) / IZR (n * base)) - clamp l h (IZR (a * base + x) / IZR (n * base))) * IZR (n * base))).
  - rewrite zsum_scale, (zsum_telescope _ _ (fun x => clamp l h (IZR (a * base + x) / IZR (n * base)))).
    rewrite Z2Nat.id by lia. unfold part. rewrite mult_IZR, !Z.add_0_l, Z.add_0_r.
    replace (a * base + base)%Z with ((a + 1) * base)%Z by ring. rewrite !mult_IZR.
    replace (IZR (a + 1) * IZR base / (IZR n * IZR base)) with (IZR (a + 1) / IZR n) by (field; lra).
    replace (IZR a * IZR base / (IZR n * IZR base)) with (IZR a / IZR n) by (field; lra). field. lra.
  - intros x. unfold part. replace (a * base + x + 1)%Z with (a * base + (x + 1))%Z by ring. ring.
Qed.

Section Refine.

Variable A : Type.
Variable dec : forall x y : A, {x = y} + {x <> y}.
Variable decide : Z -> Z -> option A.
(** The values for which the answer is v are those in the cell [low v, high v]. *)
Variables low high : A -> R.

(** What is decided is so for every number of the interval; and what lies one width inside a cell is decided. *)
Definition sound : Prop := forall a n v, (0 <= a < n)%Z -> decide a n = Some v ->
  low v <= IZR a / IZR n /\ IZR (a + 1) / IZR n <= high v.
Definition complete (v : A) : Prop := forall a n, (0 <= a < n)%Z ->
  low v + 1 / IZR n <= IZR a / IZR n -> IZR (a + 1) / IZR n <= high v - 1 / IZR n -> decide a n = Some v.
Definition apart : Prop := forall v v', v <> v' -> high v <= low v' \/ high v' <= low v.

Lemma further : forall a n x, (0 <= a < n)%Z -> (0 <= x < base)%Z -> (0 <= a * base + x < n * base)%Z.
Proof. intros. nia. Qed.

Theorem refine_most : forall fuel a n v, sound -> (0 <= a < n)%Z ->
  law dec (refine base decide fuel a n) v <= part (low v) (high v) a n.
Proof.
  intros fuel a n v S. revert a n. induction fuel as [|fuel IH]; intros a n H; cbn [refine];
    destruct (decide a n) as [v'|] eqn:D.
  1, 3: unfold law; cbn [E]; destruct (S a n v' H D) as [L U]; destruct (dec v' v) as [->|N];
    [rewrite indicator_same, part_whole by (lia || assumption); lra|
     rewrite indicator_other by assumption; apply part_range; lia].
  - unfold law. cbn. apply part_range. lia.
  - unfold law. cbn [E]. rewrite <- part_additive by lia. apply mean_le. intros x Hx. apply IH. now apply further.
Qed.

Theorem refine_least : forall fuel a n v, sound -> complete v -> apart -> (0 <= a < n)%Z ->
  part (low v + 2 / (IZR n * IZR base ^ fuel)) (high v - 2 / (IZR n * IZR base ^ fuel)) a n
    <= law dec (refine base decide fuel a n) v.
Proof.
  intros fuel a n v Sd C Ap. revert a n. pose proof base_R as P.
  induction fuel as [|fuel IH]; intros a n H; cbn [refine]; assert (Q : 0 < IZR n) by (apply IZR_lt; lia).
  - destruct (decide a n) as [v'|] eqn:D.
    + unfold law. cbn [E]. destruct (dec v' v) as [->|N]; [rewrite indicator_same; apply part_range; lia|].
      rewrite indicator_other by assumption. destruct (Sd a n v' H D) as [L U]. right.
      assert (0 < 2 / (IZR n * IZR base ^ 0)) by (apply Rdiv_lt_0_compat; [lra|cbn; lra]).
      apply part_none; [lia|]. destruct (Ap v' v N); [left|right; left]; lra.
    + unfold law. cbn [E]. right. cbn [pow]. rewrite Rmult_1_r. apply part_none; [lia|].
      pose proof (ends a n ltac:(lia)) as W. pose proof (width_pos n ltac:(lia)).
      replace (2 / IZR n) with (1 / IZR n + 1 / IZR n) by (field; lra).
      destruct (Rle_dec (IZR (a + 1) / IZR n) (low v + (1 / IZR n + 1 / IZR n))) as [|X]; [now left|].
      destruct (Rle_dec (high v - (1 / IZR n + 1 / IZR n)) (IZR a / IZR n)) as [|Y]; [now right; left|].
      exfalso. rewrite (C a n H) in D; [discriminate|lra|lra].
  - destruct (decide a n) as [v'|] eqn:D.
    + unfold law. cbn [E]. destruct (dec v' v) as [->|N]; [rewrite indicator_same; apply part_range; lia|].
      rewrite indicator_other by assumption. destruct (Sd a n v' H D) as [L U]. right.
      assert (0 < 2 / (IZR n * IZR base ^ S fuel))
        by (apply Rdiv_lt_0_compat; [lra|apply Rmult_lt_0_compat; [lra|now apply pow_lt]]).
      apply part_none; [lia|]. destruct (Ap v' v N); [left|right; left]; lra.
    + unfold law. cbn [E]. rewrite <- part_additive by lia. apply mean_le. intros x Hx.
      eapply Rle_trans; [|apply IH; now apply further]. right.
      rewrite mult_IZR. cbn [pow]. now rewrite !Rmult_assoc.
Qed.

End Refine.

End Words.
