(** The invariant of the ledger, and that payments keep it. *)

From Coq Require Import ZArith List Bool Lia Permutation.
Require Import Ledger Lost.
Import ListNotations.
Open Scope Z_scope.

Section Invariant.
Variable cfg : config.
Hypothesis epsilon_range : 0 <= epsilon cfg <= LARGEST.
Hypothesis top_range : 0 <= top cfg.
Hypothesis period_range : 0 <= period cfg.

Notation epoch_of := (epoch_of cfg).
Notation left_at := (left_at cfg).
Notation class_of := (class_of cfg).
Notation held := (held cfg).
Notation first_lost := (first_lost cfg).
Notation step := (step cfg).

(** ** What is truly taken *)

Definition debits (k : Z) (l : list (Z * Z * Z)) : Z :=
  sum (map (fun p => if fst (fst p) =? k then snd (fst p) else 0) l).
Definition losses (k : Z) (l : list (Z * Z * Z)) : Z :=
  sum (map (fun p => if fst (fst p) =? k then snd p else 0) l).

(** ** The invariant *)

Definition reached (st : state) (k : Z) : Prop :=            (* no slot is of a later epoch than k *)
  (forall s, In s (streams (now st)) -> epoch_of (last_of (now st) s) <= k) /\ (period cfg = 0 -> k = 0).
Definition standing_ok (k : Z) (s : standing) : Prop := 0 <= active s /\ (epoch s <= k \/ (spent s = 0 /\ active s = 0)).
Definition account_ok (k : Z) (a : accounts) : Prop :=
  standing_ok k (table a) /\ forall s, standing_ok k (get zero s (own a)).
Definition levies_ok (a : accounts) : Prop := forall x, In x (levies a) -> 0 <= snd x.
Definition spent_ok (a : accounts) : Prop := existsb (by_class cfg) (streams a) = false -> 0 <= spent (table a).
Definition shares (st : state) (s : Z) : Z -> Z := share_of (seen st) s.
Definition marks (st : state) (s : Z) : list Z := get [] s (restored (seen st)).

(** What stream [s] can have taken, [taken], since a copy was made, and in which class the user is now. *)
Definition tracked (st : state) (c : accounts) (k s taken : Z) : Prop :=
  exists m0 j b a n,
    walk cfg (shares st s) (left_at c k) (class_of c s k) (first_lost c s k) (last_of (now st) s) (marks st s) = (b, a, n) /\
    (a = false -> m0 = class_of c s k) /\ 0 <= m0 <= top cfg /\ (j <= n)%nat /\
    class_of (now st) s k = Z.min (m0 + Z.of_nat j) (top cfg) /\
    taken <= pays cfg (shares st s) (left_at c k) b m0 j.

Definition follows (st : state) (c : accounts) (billed_then : list (Z * Z)) (k s taken : Z) : Prop :=
  if by_class cfg s then tracked st c k s taken else taken <= get 0 s (billed (seen st)) - get 0 s billed_then.

Definition covered (st : state) (c : accounts) (billed_then : list (Z * Z)) (k : Z) : Prop :=
  exists taken : Z -> Z,
    (forall s, In s (streams (now st)) -> 0 <= taken s <= left_at c k /\ follows st c billed_then k s (taken s)) /\
    left_at c k - sum (map taken (streams (now st))) <= held (now st) - debits k (paid st).

Definition copy_ok (st : state) (copy : accounts * list (Z * Z)) : Prop :=
  let (c, billed_then) := copy in
  assigned c = assigned (now st) /\ levies_ok c /\ (forall k, reached st k -> account_ok k c) /\
  (forall s, has s (slots c) = true -> In s (streams (now st))) /\
  spent_ok c /\ (forall k, reached st k -> left_at c k <= LARGEST) /\
  ((forall s, In s (streams (now st)) -> has s (slots c) = true) ->
   (forall s, In s (streams (now st)) -> last_of c s <= last_of (now st) s) /\
   (forall s, get 0 s billed_then <= get 0 s (billed (seen st))) /\
   forall k, reached st k -> covered st c billed_then k).

Record invariant (st : state) : Prop := {
  i_streams : NoDup (streams (now st));
  i_held : 0 <= held (now st) <= LARGEST;
  i_levies : levies_ok (now st);
  i_single : period cfg <> 0 -> forall x y, In x (streams (now st)) -> In y (streams (now st)) -> x = y;
  i_spent : spent_ok (now st);
  i_now : forall k, reached st k -> account_ok k (now st) /\ left_at (now st) k <= held (now st) - debits k (paid st);
  i_epoch : forall k, debits k (paid st) <= held (now st);
  i_later : forall k k', reached st k -> k < k' -> debits k' (paid st) = 0;
  i_paid : forall p, In p (paid st) -> 0 <= snd (fst p) /\ snd p <= snd (fst p) * GRAINS /\ (period cfg = 0 -> fst (fst p) = 0);
  i_shares : forall s, shares_ok (shares st s);
  i_marks : forall s x, In x (marks st s) -> In s (streams (now st)) /\ x <= last_of (now st) s;
  i_copies : forall copy, In copy (copies st) -> copy_ok st copy
}.

(** ** Small facts *)

Lemma epoch_mono : forall t t', t <= t' -> epoch_of t <= epoch_of t'.
Proof.
  intros. unfold Ledger.epoch_of. destruct (Z.eq_dec (period cfg) 0) as [E|E]; [rewrite E, !Zdiv_0_r; lia|].
  apply Z.div_le_mono; lia.
Qed.

Lemma epoch_none : forall t, period cfg = 0 -> epoch_of t = 0.
Proof. intros t E. unfold Ledger.epoch_of. rewrite E. apply Zdiv_0_r. Qed.

Lemma left_nonneg : forall a k, 0 <= left_at a k.
Proof. intros. unfold Ledger.left_at, left. lia. Qed.

Lemma sum_nonneg : forall l, (forall x, In x l -> 0 <= x) -> 0 <= sum l.
Proof.
  induction l as [|x l IH]; intros H; cbn; [lia|]. fold (sum l). pose proof (H x (or_introl eq_refl)).
  pose proof (IH (fun y I => H y (or_intror I))). lia.
Qed.

Lemma sum_app : forall l l', sum (l ++ l') = sum l + sum l'.
Proof. induction l as [|x l IH]; intros; cbn; [reflexivity|]. fold (sum (l ++ l')) (sum l). rewrite IH. lia. Qed.

Lemma levied_nonneg : forall a k, levies_ok a -> 0 <= levied k (levies a).
Proof.
  intros a k H. apply sum_nonneg. intros x I. apply in_map_iff in I as [p [<- I]]. apply filter_In in I as [I _]. auto.
Qed.

Lemma fresh_view : forall k k' s, standing_ok k s -> k < k' -> spent (view k' s) = 0 /\ active (view k' s) = 0.
Proof.
  intros k k' s [A B] L. unfold view. destruct (Z.ltb_spec (epoch s) k'); cbn; [auto|]. destruct B; [lia|tauto].
Qed.

Lemma active_view : forall k k' s, standing_ok k s -> 0 <= active (view k' s).
Proof. intros k k' s [A B]. unfold view. destruct (epoch s <? k'); cbn; lia. Qed.

Lemma class_range : forall a s k k', account_ok k a -> 0 <= class_of a s k' <= top cfg.
Proof.
  intros a s k k' [_ A]. unfold Ledger.class_of, payments. pose proof (active_view k k' _ (A s)). lia.
Qed.

Lemma fresh_left : forall a k k', account_ok k a -> levies_ok a -> 0 <= held a -> k < k' -> left_at a k' <= held a.
Proof.
  intros a k k' [A _] L H K. unfold Ledger.left_at, left, available_at, available.
  destruct (fresh_view k k' _ A K) as [-> _]. pose proof (levied_nonneg a k' L). lia.
Qed.

Lemma fresh_class : forall a s k k', account_ok k a -> k < k' -> class_of a s k' = 0.
Proof.
  intros a s k k' [_ A] K. unfold Ledger.class_of, payments. destruct (fresh_view k k' _ (A s) K) as [_ ->]. lia.
Qed.

Lemma walk_range : forall sh h own first last rs, shares_ok sh -> 0 <= h ->
  exists b a n, walk cfg sh h own first last rs = (b, a, n) /\ 0 <= b <= h.
Proof.
  intros. destruct (walk_mono cfg sh sh h own rs (slots_between first last) 0 0 (mem (first - 1) rs) O H H
    ltac:(intros; lia) ltac:(lia) H0) as (c & c' & d & m & E1 & E2 & E3 & E4).
  exists c, d, m. split; [exact E1|]. rewrite E1 in E2. injection E2. lia.
Qed.

Lemma sum_zero : forall (A : Type) (l : list A), sum (map (fun _ => 0) l) = 0.
Proof. intros A l. induction l; cbn; auto. Qed.

(** In an epoch that nobody has reached, every account is full, and everybody is a newcomer. *)
Lemma covered_fresh : forall st c bt k k', (forall s, shares_ok (shares st s)) -> 0 <= held (now st) ->
  account_ok k (now st) -> account_ok k c -> k < k' ->
  assigned c = assigned (now st) -> levies_ok c -> debits k' (paid st) = 0 ->
  (forall s, get 0 s bt <= get 0 s (billed (seen st))) -> covered st c bt k'.
Proof.
  intros st c bt k k' S H N C K A L D B. exists (fun _ => 0). split.
  - intros s _. split; [pose proof (left_nonneg c k'); lia|]. unfold follows.
    destruct (by_class cfg s); [|specialize (B s); lia].
    destruct (walk_range (shares st s) (left_at c k') (class_of c s k') (first_lost c s k') (last_of (now st) s) (marks st s)
                (S s) (left_nonneg c k')) as (b & a & n & W & R).
    exists 0, O, b, a, n. split; [exact W|]. rewrite (fresh_class c s k k' C K), (fresh_class (now st) s k k' N K).
    cbn [Ledger.pays Z.of_nat]. repeat split; lia.
  - rewrite sum_zero, D.
    assert (held c = held (now st)) by (unfold Ledger.held; now rewrite A).
    pose proof (fresh_left c k k' C L ltac:(lia) K). lia.
Qed.


(** ** A payment *)

Lemma in_turn_spec : forall a s t, in_turn cfg a s t = true ->
  (In s (streams a) -> last_of a s < t) /\ (period cfg <> 0 -> forall x, In x (streams a) -> x = s).
Proof.
  unfold in_turn. intros a s t H. apply andb_true_iff in H as [H1 H2]. split.
  - intros I. apply has_in in I. rewrite I in H1. cbn in H1. now apply Z.ltb_lt.
  - intros P x I. apply orb_true_iff in H2 as [H2|H2]; [apply Z.eqb_eq in H2; contradiction|].
    rewrite forallb_forall in H2. specialize (H2 x I). apply Z.eqb_eq in H2. congruence.
Qed.

Lemma sum_update : forall (l : list Z) (f : Z -> Z) s v, NoDup l -> In s l ->
  sum (map (fun x => if x =? s then v else f x) l) = sum (map f l) - f s + v.
Proof.
  assert (N : forall (l : list Z) (f : Z -> Z) s v, ~ In s l -> map (fun x => if x =? s then v else f x) l = map f l).
  { intros l f s v I. apply map_ext_in. intros a J. destruct (Z.eqb_spec a s); [subst; contradiction|reflexivity]. }
  induction l as [|x l IH]; intros f s v D I; [destruct I|]. inversion D as [|? ? D1 D2]; subst. cbn.
  fold (sum (map f l)) (sum (map (fun x => if x =? s then v else f x) l)).
  destruct (Z.eqb_spec x s) as [->|E].
  - rewrite N by assumption. lia.
  - destruct I as [I|I]; [contradiction|]. rewrite (IH f s v D2 I). lia.
Qed.

Lemma sum_ge : forall (l : list Z) (f : Z -> Z) s, In s l -> (forall x, In x l -> 0 <= f x) -> f s <= sum (map f l).
Proof.
  induction l as [|x l IH]; intros f s I P; [destruct I|]. cbn. fold (sum (map f l)). destruct I as [->|I].
  - assert (0 <= sum (map f l)); [|lia]. apply sum_nonneg. intros y J. apply in_map_iff in J as [z [<- J]]. apply P. now right.
  - specialize (IH f s I (fun y J => P y (or_intror J))). pose proof (P x (or_introl eq_refl)). lia.
Qed.

Lemma tracked_grows : forall st st' c k s taken, tracked st c k s taken ->
  shares_ok (shares st s) -> shares_ok (shares st' s) -> (forall m, shares st s m <= shares st' s m) ->
  marks st' s = marks st s -> last_of (now st) s <= last_of (now st') s ->
  (forall x, In x (marks st s) -> x <= last_of (now st) s) ->
  class_of (now st') s k = class_of (now st) s k -> tracked st' c k s taken.
Proof.
  intros st st' c k s taken (m0 & j & b & a & n & W & A & M & J & C & T) S S' L E La R Cl.
  destruct (walk_mono cfg (shares st s) (shares st' s) (left_at c k) (class_of c s k) (marks st s)
    (slots_between (first_lost c s k) (last_of (now st) s)) 0 0 (mem (first_lost c s k - 1) (marks st s)) O S S' L
    ltac:(lia) (left_nonneg c k)) as (b1 & b2 & d & n' & E1 & E2 & E3 & E4).
  unfold walk in W. rewrite E1 in W. injection W as -> -> ->.
  pose proof (walk_more cfg (shares st' s) (left_at c k) (class_of c s k) (first_lost c s k) _ _ _ _ _ _ La R E2) as W'.
  exists m0, j, b2, a, (n + length (slots_between (Z.max (first_lost c s k) (last_of (now st) s + 1)) (last_of (now st') s)))%nat.
  rewrite E. split; [exact W'|]. repeat split; auto; try lia; try (now rewrite Cl).
  pose proof (pays_mono cfg (shares st s) (shares st' s) (left_at c k) b b2 m0 j S S' L ltac:(lia) E4). lia.
Qed.

(** One payment more, in the class in which the user is. *)
Lemma tracked_pays : forall st st' c k s taken f t, tracked st c k s taken ->
  shares_ok (shares st s) -> shares_ok (shares st' s) -> (forall m, shares st s m <= shares st' s m) ->
  marks st' s = marks st s -> last_of (now st) s < last_of (now st') s ->
  (forall x, In x (marks st s) -> x <= last_of (now st) s) ->
  t = last_of (now st') s -> first_lost c s k <= t ->
  0 <= f <= shares st' s (class_of (now st) s k) ->
  class_of (now st') s k = Z.min (payments (now st) s k + 1) (top cfg) ->
  tracked st' c k s (taken + parts (left_at c k - taken) f).
Proof.
  intros st st' c k s taken f t (m0 & j & b & a & n & W & A & M & J & C & T) S S' L E La R -> Fi F Cl.
  destruct (walk_mono cfg (shares st s) (shares st' s) (left_at c k) (class_of c s k) (marks st s)
    (slots_between (first_lost c s k) (last_of (now st) s)) 0 0 (mem (first_lost c s k - 1) (marks st s)) O S S' L
    ltac:(lia) (left_nonneg c k)) as (b1 & b2 & d & n' & E1 & E2 & E3 & E4).
  unfold walk in W. rewrite E1 in W. injection W as -> -> ->.
  pose proof (walk_more cfg (shares st' s) (left_at c k) (class_of c s k) (first_lost c s k) _ _ _ _ _ _
    (Z.lt_le_incl _ _ La) R E2) as W'.
  set (more := length (slots_between (Z.max (first_lost c s k) (last_of (now st) s + 1)) (last_of (now st') s))) in *.
  assert (0 < more)%nat.
  { unfold more, slots_between. rewrite <- (Nat2Z.id (length _)).
    assert (Le : forall n x, length (zrange x n) = n) by (induction n0; intros; cbn; auto). rewrite Nat2Z.id, Le. lia. }
  exists m0, (Datatypes.S j), b2, a, (n + more)%nat. rewrite E. split; [exact W'|].
  repeat split; auto; try lia.
  - rewrite Cl. unfold Ledger.class_of in C. lia.
  - cbn [Ledger.pays]. rewrite <- C.
    pose proof (pays_mono cfg (shares st s) (shares st' s) (left_at c k) b b2 m0 j S S' L ltac:(lia) E4).
    apply taken_mono; [lia|lia|lia|apply S'].
Qed.

(** What is left truly, after somebody has paid a share of what the account says, is no less than what is foreseen. *)
Lemma foreseen : forall l total taken r d f, 0 <= taken <= l -> taken <= total -> l - total <= r -> 0 <= r ->
  0 <= f <= SHARE_STEPS -> d <= parts r f -> l - (total + parts (l - taken) f) <= r - d.
Proof.
  intros l total taken r d f T1 T2 R R0 F D. set (x := Z.max 0 (l - total)).
  pose proof (rest_mono x r f ltac:(lia) F). pose proof (parts_mono x (l - taken) f f ltac:(lia) ltac:(lia)). lia.
Qed.

Lemma view_same : forall k s, epoch s = k -> spent (view k s) = spent s /\ active (view k s) = active s.
Proof. intros k s <-. unfold view. rewrite Z.ltb_irrefl. cbn. auto. Qed.

Lemma standing_later : forall k k' s, standing_ok k s -> k <= k' -> standing_ok k' s.
Proof. intros k k' s [A B] L. split; [assumption|]. destruct B; [left; lia|right; assumption]. Qed.

(** What a payment changes. *)
Lemma pay_spec : forall a s t price grains a' cost k, pay cfg a s t price grains = Some (a', cost) -> k = epoch_of t ->
  account_ok k a -> 0 <= price -> 0 <= grains -> debit price grains <= left_at a k ->
  slots a' = set s t (slots a) /\ levies a' = levies a /\ assigned a' = assigned a /\ account_ok k a' /\
  left_at a' k = left_at a k - debit price grains /\
  (spent_ok a -> existsb (by_class cfg) (streams a) = false -> 0 <= spent (table a')) /\
  (forall x, x <> s \/ by_class cfg s = false \/ debit price grains = 0 -> class_of a' x k = class_of a x k) /\
  (by_class cfg s = true -> 0 < debit price grains -> class_of a' s k = Z.min (payments a s k + 1) (top cfg)).
Proof.
  intros a s t price grains a' cost k P K [At Ao] Hp Hg D. unfold pay in P. rewrite <- K in P.
  pose proof (debit_nonneg price grains Hp Hg) as Dn.
  destruct (Z.leb_spec (debit price grains) 0).
  - injection P as <- <-. cbn. repeat split; auto; try apply At; try apply Ao; try lia.
    replace (debit price grains) with 0 by lia. rewrite Z.sub_0_r. reflexivity.
  - destruct (Z.ltb_spec (available_at cfg a k) (spent (view k (table a)) + debit price grains)); [discriminate|].
    injection P as <- <-.
    assert (Ok : forall x, standing_ok k x -> standing_ok k (after_payment k (debit price grains) x)).
    { intros x Hx. split; cbn; [pose proof (active_view k k x Hx); lia|left; lia]. }
    split; [reflexivity|]. split; [reflexivity|]. split; [reflexivity|]. split; [|split; [|split; [|split]]].
    + split; [apply (Ok _ At)|]. intros y. cbn [own]. destruct (by_class cfg s); [|apply Ao].
      rewrite get_set. destruct (s =? y); [apply Ok|]; apply Ao.
    + unfold Ledger.left_at in *. change (available_at cfg {| table := after_payment k (debit price grains) (table a);
        own := _; slots := _; levies := levies a; assigned := assigned a |} k) with (available_at cfg a k).
      cbn [table]. destruct (view_same k (after_payment k (debit price grains) (table a)) eq_refl) as [-> _].
      cbn. unfold left in *. lia.
    + intros Sp N. specialize (Sp N). cbn. unfold view. destruct (epoch (table a) <? k); cbn; lia.
    + intros x X. unfold Ledger.class_of, payments. cbn [own]. destruct (by_class cfg s) eqn:B; [|reflexivity].
      rewrite get_set. destruct (Z.eqb_spec s x); [|reflexivity]. subst. destruct X as [X|[X|X]]; [congruence|discriminate|lia].
    + intros B _. unfold Ledger.class_of, payments. cbn [own]. rewrite B, get_set, Z.eqb_refl.
      destruct (view_same k (after_payment k (debit price grains) (get zero s (own a))) eq_refl) as [_ ->]. reflexivity.
Qed.

Lemma pay_accepted : forall a s t price grains, debit price grains <= left_at a (epoch_of t) ->
  exists a' cost, pay cfg a s t price grains = Some (a', cost).
Proof.
  intros a s t price grains D. unfold pay. destruct (Z.leb_spec (debit price grains) 0); [eauto|].
  unfold Ledger.left_at, left in D.
  destruct (Z.ltb_spec (available_at cfg a (epoch_of t)) (spent (view (epoch_of t) (table a)) + debit price grains)); [lia|eauto].
Qed.

Lemma turn_reached : forall st s t, in_turn cfg (now st) s t = true -> reached st (epoch_of t).
Proof.
  intros st s t T. destruct (in_turn_spec _ _ _ T) as [T1 T2]. split; [|apply epoch_none].
  intros x I. destruct (Z.eq_dec (period cfg) 0) as [E|E]; [rewrite !epoch_none by assumption; lia|].
  pose proof (T2 E x I). subst x. apply epoch_mono. specialize (T1 I). lia.
Qed.

Lemma settle_keeps : forall st s t price grains seen' f e st' out, invariant st -> in_turn cfg (now st) s t = true ->
  0 <= price -> 0 <= grains -> settle cfg st s t price grains seen' = Some (st', out) ->
  restored seen' = restored (seen st) ->
  (forall x, shares_ok (share_of seen' x)) -> (forall x m, share_of (seen st) x m <= share_of seen' x m) ->
  (forall x, get 0 x (billed (seen st)) <= get 0 x (billed seen')) ->
  (if by_class cfg s
   then debit price grains <= parts (left_at (now st) (epoch_of t)) f /\ 0 <= f <= share_of seen' s (class_of (now st) s (epoch_of t))
   else debit price grains <= left_at (now st) (epoch_of t) /\ debit price grains <= e /\
        get 0 s (billed seen') = get 0 s (billed (seen st)) + e) ->
  invariant st'.
Proof.
  intros st s t price grains seen' f e st' out I T Hp Hg P Re S' L B Pay. unfold settle in P.
  destruct (pay cfg (now st) s t price grains) as [[a' cost]|] eqn:Q; [|discriminate]. injection P as <- _.
  pose proof (turn_reached st s t T) as Rk. destruct (in_turn_spec _ _ _ T) as [T1 T2]. set (k := epoch_of t) in *.
  destruct (i_now st I k Rk) as [Ak Lk]. pose proof (debit_nonneg price grains Hp Hg) as Dn.
  assert (D : debit price grains <= left_at (now st) k).
  { destruct (by_class cfg s); [|lia]. pose proof (left_nonneg (now st) k). pose proof (S' s (class_of (now st) s k)).
    pose proof (parts_le (left_at (now st) k) f ltac:(lia) ltac:(lia)). lia. }
  destruct (pay_spec _ _ _ _ _ _ _ k Q eq_refl Ak Hp Hg D) as (Es & El & Ea & Ak' & Ll & Sp & Co & Cs).
  specialize (Sp (i_spent st I)).
  assert (Eh : held a' = held (now st)) by (unfold Ledger.held; now rewrite Ea).
  set (d := debit price grains) in *.
  assert (Last : forall x, last_of a' x = if s =? x then t else last_of (now st) x)
    by (intros; unfold last_of; rewrite Es; apply get_set).
  assert (Str : forall x, In x (streams a') <-> In x (streams (now st)) \/ x = s).
  { intros x. unfold streams. rewrite <- !has_in, Es, has_set, orb_true_iff, Z.eqb_eq. intuition. }
  set (st' := {| now := a'; seen := seen'; copies := copies st; paid := (k, d, price * grains) :: paid st |}).
  assert (De : forall x, debits x (paid st') = (if k =? x then d else 0) + debits x (paid st)) by reflexivity.
  assert (Back : forall x, reached st' x -> reached st x /\ k <= x).
  { intros x [R1 R2]. cbn [now st'] in R1. split; [split; [|assumption]|].
    - intros y J. pose proof (R1 y (proj2 (Str y) (or_introl J))) as R. rewrite Last in R.
      destruct (Z.eqb_spec s y); [|assumption]. subst. specialize (T1 J). pose proof (epoch_mono (last_of (now st) y) t). lia.
    - pose proof (R1 s (proj2 (Str s) (or_intror eq_refl))) as R. rewrite Last, Z.eqb_refl in R. exact R. }
  assert (Ok : forall x, k <= x -> account_ok x a').
  { intros x X. destruct Ak' as [A1 A2]. split; [|intros y]; eapply standing_later; eauto. }
  constructor.
  - cbn [now st']. unfold streams. rewrite Es, keys_set. destruct (has s (slots (now st))) eqn:H; [apply (i_streams st I)|].
    apply (Permutation_NoDup (Permutation_cons_append _ _)). constructor; [|apply (i_streams st I)].
    intros J. apply has_in in J. congruence.
  - cbn [now st']. rewrite Eh. apply (i_held st I).
  - unfold levies_ok. cbn [now st']. rewrite El. apply (i_levies st I).
  - intros E x y X Y. cbn [now st'] in X, Y. apply Str in X, Y. destruct X as [X|X], Y as [Y|Y]; subst; try reflexivity;
      try (rewrite (T2 E _ X)); try (rewrite (T2 E _ Y)); reflexivity.
  - intros N. cbn [now st'] in *. apply Sp. apply not_true_is_false. intros Y. apply existsb_exists in Y as [y [Y1 Y2]].
    apply not_true_iff_false in N. apply N, existsb_exists. exists y. split; [apply Str; now left|assumption].
  - intros x R. destruct (Back x R) as [R1 R2]. split; [apply Ok; assumption|]. rewrite De. cbn [now st']. rewrite Eh.
    destruct (Z.eqb_spec k x) as [<-|N]; [lia|]. rewrite (i_later st I k x Rk ltac:(lia)).
    rewrite <- Eh. pose proof (i_held st I). rewrite Z.add_0_r, Z.sub_0_r.
    apply (fresh_left a' k x Ak'); [unfold levies_ok; rewrite El; apply (i_levies st I)|lia|lia].
  - intros x. rewrite De. cbn [now st']. rewrite Eh. destruct (Z.eqb_spec k x) as [<-|N]; [lia|]. apply (i_epoch st I).
  - intros x y R X. destruct (Back x R) as [R1 R2]. rewrite De, (i_later st I x y R1 X).
    destruct (Z.eqb_spec k y); lia.
  - intros p [<-|J]; [|apply (i_paid st I p J)]. cbn. split; [lia|]. split; [apply debit_covers|apply epoch_none].
  - intros x. apply S'.
  - intros x y J. unfold marks in J. cbn [seen st'] in J. rewrite Re in J. destruct (i_marks st I x y J) as [M1 M2].
    cbn [now st']. split; [apply Str; now left|]. rewrite Last. destruct (Z.eqb_spec s x); [subst; specialize (T1 M1)|]; lia.
  - intros [c bt] J. destruct (i_copies st I _ J) as (C1 & C2 & C3 & C4 & Cs1 & Cs2 & C5). unfold copy_ok. cbn [now seen st'].
    split; [now rewrite Ea|]. split; [assumption|]. split; [intros x R; apply C3, Back, R|].
    split; [intros x H; apply Str; left; auto|]. split; [assumption|].
    split; [intros x R; apply Cs2, Back, R|]. intros Cov.
    assert (Cov0 : forall x, In x (streams (now st)) -> has x (slots c) = true) by (intros; apply Cov, Str; now left).
    assert (Is : In s (streams (now st))) by (apply C4, Cov, Str; now right).
    destruct (C5 Cov0) as (C6 & C7 & C8). specialize (T1 Is).
    assert (Lastle : forall x, last_of (now st) x <= last_of a' x)
      by (intros x; rewrite Last; destruct (Z.eqb_spec s x); subst; lia).
    split; [|split].
    + intros x X. assert (Ix : In x (streams (now st))) by (apply Str in X as [X|X]; subst; assumption).
      specialize (C6 x Ix). specialize (Lastle x). lia.
    + intros x. specialize (B x). specialize (C7 x). lia.
    + intros x R. destruct (Back x R) as [R1 R2]. destruct (Z.eq_dec k x) as [<-|N].
      2:{ apply (covered_fresh st' c bt k x S'); cbn [now seen st'].
          - rewrite Eh. apply (i_held st I).
          - exact Ak'.
          - apply (C3 k Rk).
          - lia.
          - now rewrite Ea.
          - exact C2.
          - rewrite De, (i_later st I k x Rk ltac:(lia)). destruct (Z.eqb_spec k x); lia.
          - intros y. specialize (B y). specialize (C7 y). lia. }
      destruct (C8 k Rk) as (taken & F & Le). cbn [now seen st'].
      pose proof (left_nonneg (now st) k) as Ln. pose proof (sum_ge _ taken s Is (fun y Y => proj1 (proj1 (F y Y)))) as Sg.
      destruct (F s Is) as [Fr Fs]. unfold follows in Fs.
      set (v := if d =? 0 then taken s else if by_class cfg s then taken s + parts (left_at c k - taken s) f
                else Z.min (taken s + d) (left_at c k)).
      exists (fun y => if y =? s then v else taken y).
      assert (Mk : forall y, In y (streams (now st)) -> forall z, In z (marks st y) -> z <= last_of (now st) y)
        by (intros y Y z Zi; apply (i_marks st I y z Zi)).
      assert (Sok : forall y, shares_ok (shares st y)) by apply (i_shares st I).
      assert (Grow : forall y, In y (streams (now st)) -> follows st c bt k y (taken y) ->
                class_of a' y k = class_of (now st) y k -> follows st' c bt k y (taken y)).
      { intros y Y Fy Cy. unfold follows in *. destruct (by_class cfg y); [|specialize (B y); cbn [seen st']; lia].
        apply (tracked_grows st st'); auto; try apply S'; try apply L; try apply Lastle; try (apply Mk; assumption).
        unfold marks. cbn [seen st']. now rewrite Re. }
      assert (Eq : streams a' = streams (now st)).
      { unfold streams. rewrite Es, keys_set. apply has_in in Is. now rewrite Is. }
      split.
      * intros y Y. cbn [now st'] in Y. rewrite Eq in Y. destruct (Z.eqb_spec y s) as [->|Ny].
        2:{ split; [apply F, Y|]. apply Grow; [assumption|apply F, Y|]. apply Co. now left. }
        unfold v. destruct (Z.eqb_spec d 0) as [Dz|Dz].
        { split; [apply F, Is|]. apply Grow; [assumption|apply F, Is|]. apply Co. right. now right. }
        unfold follows. destruct (by_class cfg s) eqn:Bc.
        -- destruct Pay as [Pay1 Pay2]. pose proof (S' s (class_of (now st) s k)).
           pose proof (parts_le (left_at c k - taken s) f ltac:(lia) ltac:(lia)). split; [lia|].
           apply (tracked_pays st st' c k s (taken s) f t); auto; cbn [now seen st']; try apply S'; try apply L; try (apply Mk; assumption).
           ++ unfold marks. cbn [seen st']. now rewrite Re.
           ++ rewrite Last, Z.eqb_refl. assumption.
           ++ rewrite Last, Z.eqb_refl. reflexivity.
           ++ unfold Ledger.first_lost. destruct (Z.eqb_spec (period cfg) 0) as [E|E]; [specialize (C6 s Is); lia|].
              pose proof (Z.mul_div_le t (period cfg) ltac:(lia)). specialize (C6 s Is).
              unfold k, Ledger.epoch_of. lia.
           ++ apply Cs; [reflexivity|lia].
        -- destruct Pay as (Pay1 & Pay2 & Pay3). split; [lia|]. cbn [seen st']. rewrite Pay3. specialize (C7 s). lia.
      * rewrite De, Z.eqb_refl. cbn [now st']. rewrite Eh, Eq, sum_update by (auto; apply (i_streams st I)).
        pose proof (i_epoch st I k). unfold v. destruct (Z.eqb_spec d 0) as [Dz|Dz]; [lia|].
        destruct (by_class cfg s) eqn:Bc.
        -- destruct Pay as [Pay1 Pay2]. pose proof (S' s (class_of (now st) s k)).
           pose proof (parts_mono (left_at (now st) k) (held (now st) - debits k (paid st)) f f ltac:(lia) ltac:(lia)).
           pose proof (foreseen (left_at c k) (sum (map taken (streams (now st)))) (taken s)
             (held (now st) - debits k (paid st)) d f ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia) ltac:(lia)). lia.
        -- lia.
Qed.

End Invariant.
