(** On every trace of the ledger, of any length and with restored copies, no user loses more than ε in an epoch. *)

From Coq Require Import ZArith List Bool Lia Permutation.
Require Import Ledger Lost Invariant Payments.
Import ListNotations.
Open Scope Z_scope.

Section Trace.
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
Notation invariant := (invariant cfg).
Notation reached := (reached cfg).

(** ** Levies, copies and quotas *)

Lemma levied_app : forall k l x, levied k (l ++ [x]) = levied k l + (if k <=? fst x then snd x else 0).
Proof.
  intros. unfold levied. rewrite filter_app, map_app, sum_app. cbn. destruct (k <=? fst x); cbn; lia.
Qed.

Lemma levy_keeps : forall st t units st' out, invariant st -> step st (Levy t units) = Some (st', out) -> invariant st'.
Proof.
  intros st t units st' out I E. cbn in E. destruct (Z.leb_spec 0 units); [|discriminate]. injection E as <- _.
  assert (L : forall k, available_at cfg {| table := table (now st); own := own (now st); slots := slots (now st);
              levies := levies (now st) ++ [(epoch_of t, units)]; assigned := assigned (now st) |} k <= available_at cfg (now st) k).
  { intros k. unfold available_at, available, Ledger.held. cbn [levies assigned]. rewrite levied_app. cbn [fst snd]. destruct (k <=? epoch_of t); lia. }
  destruct I as [I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12]. constructor; auto.
  - intros x X. cbn in X. apply in_app_or in X as [X|[<-|[]]]; [now apply I3|assumption].
  - intros k R. destruct (I6 k R) as [A B]. split; [exact A|]. specialize (L k).
    unfold Ledger.left_at, left, Ledger.held in *. cbn [table now paid assigned] in *. lia.
Qed.

Lemma debits_nonneg : forall k l, (forall p, In p l -> 0 <= snd (fst p)) -> 0 <= debits k l.
Proof.
  intros k l P. apply sum_nonneg. intros x X. apply in_map_iff in X as [p [<- X]].
  destruct (fst (fst p) =? k); [apply (P p X)|lia].
Qed.

Lemma copy_keeps : forall st st' out, invariant st -> step st Copy = Some (st', out) -> invariant st'.
Proof.
  intros st st' out I E. cbn in E. injection E as <- _. destruct I as [I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12].
  constructor; auto. intros copy [<-|C]; [|apply I12, C].
  unfold copy_ok. cbn [now seen paid]. split; [reflexivity|]. split; [assumption|].
  split; [intros k R; apply (I6 k R)|]. split; [intros s X; now apply has_in|]. split; [assumption|].
  split; [|intros _; split; [intros; lia|split; [intros; lia|]]].
  - intros k R. destruct (I6 k R) as [_ A]. pose proof (debits_nonneg k (paid st) (fun p X => proj1 (I9 p X))). lia.
  - intros k R. destruct (I6 k R) as [A B]. exists (fun _ => 0). split; [|rewrite sum_zero; cbn [now paid]; lia].
    intros s S. split; [pose proof (left_nonneg cfg (now st) k); lia|]. unfold follows. destruct (by_class cfg s); [|cbn; lia].
    destruct (walk_range cfg (shares st s) (left_at (now st) k) (class_of (now st) s k) (first_lost (now st) s k)
      (last_of (now st) s) (marks st s) (I10 s) (left_nonneg cfg (now st) k)) as (b & a & n & W & Rb).
    pose proof (class_range cfg top_range (now st) s k k A).
    exists (class_of (now st) s k), O, b, a, n. split; [exact W|]. cbn [now Ledger.pays Z.of_nat]. repeat split; lia.
Qed.

(** The bound of an assignment is public, and at least what a user can have paid and what was levied. *)
Definition honest (st : state) (x : action) : Prop :=
  match x with
  | Assign units bound =>
      units <= assigned (now st) \/ (debits 0 (paid st) <= bound /\ levied 0 (levies (now st)) <= bound)
  | _ => True
  end.

Lemma assign_keeps : forall st units bound st' out, invariant st -> honest st (Assign units bound) ->
  step st (Assign units bound) = Some (st', out) -> invariant st'.
Proof.
  intros st units bound st' out I H E. cbn in E, H.
  destruct (_ && _ && _ && _) eqn:G in E; [|discriminate]. injection E as <- _.
  rewrite !andb_true_iff in G. destruct G as [[[G1 G2] G3] G4]. apply Z.leb_le in G1, G2, G4. apply Z.eqb_eq in G3.
  destruct I as [I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12]. unfold assignable in G4. unfold Ledger.held in *.
  assert (P : forall k, k <> 0 -> debits k (paid st) = 0).
  { intros k K. unfold debits. rewrite (map_ext_in _ (fun _ => 0)); [apply sum_zero|].
    intros p X. destruct (Z.eqb_spec (fst (fst p)) k); [|reflexivity]. destruct (I9 p X) as (_ & _ & Q). specialize (Q G3). lia. }
  specialize (I7 0) as D0.
  constructor; cbn [now seen copies paid]; unfold Ledger.held; cbn [assigned]; auto; try lia.
  - intros k R. assert (k = 0) by (destruct R as [_ R]; auto). subst k. destruct (I6 0 R) as [A B]. split; [exact A|].
    unfold Ledger.left_at, left, available_at, available, Ledger.held in *. cbn [table levies assigned] in *. lia.
  - intros k. destruct (Z.eq_dec k 0) as [->|K]; [|rewrite (P k K)]; lia.
  - intros copy [].
Qed.

(** ** Restored copies *)

Lemma get_first : forall (l : list (Z * Z)) s t, NoDup (map fst l) -> In (s, t) l -> get 0 s l = t.
Proof.
  induction l as [|[x b] l IH]; intros s t N I; [destruct I|]. destruct I as [E|I].
  - injection E as -> ->. cbn. now rewrite Z.eqb_refl.
  - inversion N; subst. cbn. destruct (Z.eqb_spec x s); [|now apply IH].
    subst. exfalso. apply H1. apply (in_map fst) in I. exact I.
Qed.

Lemma newest_spec : forall l, l <> [] -> In (newest l) (map snd l) /\ forall t, In t (map snd l) -> t <= newest l.
Proof.
  intros l N. unfold newest. split; [|apply (fold_max_ge (map snd l))].
  destruct l as [|[x b] l]; [contradiction|].
  assert (G : forall m d, fold_right Z.max d m = d \/ In (fold_right Z.max d m) m).
  { induction m as [|y m IH]; intros d; cbn; [now left|]. destruct (IH d), (Z.max_spec y (fold_right Z.max d m)) as [[? E]|[? E]];
      rewrite E; auto. }
  destruct (G (map snd ((x, b) :: l)) b) as [E|E]; [rewrite E; now left|exact E].
Qed.

Lemma newest_reached : forall st, invariant st -> slots (now st) <> [] ->
  reached st (epoch_of (newest (slots (now st)))) /\ forall k, reached st k -> epoch_of (newest (slots (now st))) <= k.
Proof.
  intros st I N. destruct (newest_spec _ N) as [N1 N2]. pose proof (i_streams _ _ I) as D. split.
  - split; [|apply epoch_none]. intros s S. apply (epoch_mono cfg period_range), N2. unfold last_of.
    unfold streams in S. apply has_in, get_in in S. apply (in_map snd) in S. exact S.
  - intros k [R _]. apply in_map_iff in N1 as [[s t] [E N1]]. cbn in E. rewrite <- E.
    rewrite <- (get_first _ s t D N1). apply R. unfold streams. apply (in_map fst) in N1. exact N1.
Qed.

Lemma marks_after : forall (last : Z -> Z) (l : list Z) r s, NoDup l ->
  get [] s (fold_right (fun x r => set x (last x :: get [] x r) r) r l) = if mem s l then last s :: get [] s r else get [] s r.
Proof.
  intros last l r s. induction l as [|x l IH]; intros N; cbn [fold_right]; [reflexivity|]. inversion N; subst.
  rewrite get_set. unfold mem in *. cbn [existsb]. rewrite (Z.eqb_sym s x).
  destruct (Z.eqb_spec x s); [|rewrite IH by assumption; reflexivity]. subst. cbn [orb].
  rewrite IH by assumption. destruct (existsb (Z.eqb s) l) eqn:E; [|reflexivity]. apply (mem_in s l) in E. contradiction.
Qed.

Lemma raised_ok : forall sh, shares_ok sh -> shares_ok (fun m => raised (sh m)) /\ forall m, sh m <= raised (sh m).
Proof.
  intros sh S. split; intros m; pose proof (S m); pose proof STEPS_pos; unfold raised; destruct (Z.eqb_spec (sh m) 0); lia.
Qed.

Lemma most_taken_covers : forall sh h own first last rs b a n m0 j, shares_ok sh -> 0 <= h ->
  walk cfg sh h own first last rs = (b, a, n) -> (a = false -> m0 = own) -> 0 <= m0 <= top cfg -> (j <= n)%nat ->
  pays cfg sh h b m0 j <= most_taken cfg (fun m => raised (sh m)) h own first last rs.
Proof.
  intros sh h own first last rs b a n m0 j S H W A M J. destruct (raised_ok sh S) as [S' L].
  destruct (walk_mono cfg sh (fun m => raised (sh m)) h own rs (slots_between first last) 0 0 (mem (first - 1) rs) O S S' L
    ltac:(lia) H) as (c & c' & d & m & E1 & E2 & E3 & E4).
  unfold walk in W. rewrite E1 in W. injection W as -> -> ->.
  unfold most_taken, walk. rewrite E2.
  pose proof (finish_covers cfg sh h own b a n m0 j S ltac:(lia) A M J).
  destruct (finish_mono cfg sh (fun m => raised (sh m)) h own b c' a n S S' L ltac:(lia) E4) as [[F1 F2] F3]. lia.
Qed.

Lemma lost_nonneg : forall st c bt own h k s, invariant st -> 0 <= h ->
  (forall s, get 0 s bt <= get 0 s (billed (seen st))) -> 0 <= lost_of cfg st (c, bt) own h k s.
Proof.
  intros st c bt own h k s I H B. unfold lost_of. destruct (by_class cfg s).
  - destruct (raised_ok _ (i_shares _ _ I s)) as [S' _].
    destruct (walk_range cfg _ h own (first_lost c s k) (last_of (now st) s) (get [] s (restored (seen st))) S' H)
      as (b & a & n & W & R). unfold most_taken. unfold shares in W. rewrite W.
    destruct (finish_mono cfg _ _ h own b b a n S' S' (fun x => Z.le_refl _) (Z.le_refl b) (proj2 R)) as [[F1 _] _].
    unfold shares in *. lia.
  - specialize (B s). assert (0 <= LARGEST) by (pose proof (i_held _ _ I); lia). lia.
Qed.

Lemma lost_covers : forall st c bt k s v, invariant st -> follows cfg st c bt k s v -> v <= left_at c k -> left_at c k <= LARGEST ->
  v <= lost_of cfg st (c, bt) (class_of c s k) (left_at c k) k s.
Proof.
  intros st c bt k s v I F V L. unfold follows in F. unfold lost_of. destruct (by_class cfg s); [|lia].
  destruct F as (m0 & j & b & a & n & W & A & M & J & C & T).
  pose proof (most_taken_covers _ _ _ _ _ _ _ _ _ m0 j (i_shares _ _ I s) (left_nonneg cfg c k) W A M J). 
  unfold marks, shares in *. lia.
Qed.

Lemma sum_le : forall (l : list Z) (f g : Z -> Z), (forall x, In x l -> f x <= g x) -> sum (map f l) <= sum (map g l).
Proof.
  induction l as [|x l IH]; intros f g H; cbn; [lia|]. fold (sum (map f l)) (sum (map g l)).
  pose proof (H x (or_introl eq_refl)). pose proof (IH f g (fun y Y => H y (or_intror Y))). lia.
Qed.

(** After the charge an old copy has no more left than the user truly has. *)
Lemma charge_lost_covers : forall st c bt k, invariant st -> In (c, bt) (copies st) -> slots (now st) <> [] ->
  (forall s, In s (streams (now st)) -> has s (slots c) = true) -> k = epoch_of (newest (slots (now st))) ->
  let a := charge_lost cfg st (c, bt) in
  left_at a k <= held (now st) - debits k (paid st) /\ account_ok k a /\ levies_ok a /\ spent_ok cfg a /\
  assigned a = assigned (now st) /\ slots a = slots (now st) /\ own a = own c.
Proof.
  intros st c bt k I C N Cov K. destruct (newest_reached st I N) as [R _]. rewrite <- K in R.
  destruct (i_copies _ _ I _ C) as (C1 & C2 & C3 & C4 & Cs & Cl & C5). destruct (C5 Cov) as (C6 & C7 & C8).
  destruct (C8 k R) as (taken & F & Le). specialize (Cl k R). pose proof (left_nonneg cfg c k) as Ln.
  pose proof (i_epoch _ _ I k) as De. destruct (C3 k R) as [At Ao].
  assert (Eh : held c = held (now st)) by (unfold Ledger.held; now rewrite C1).
  unfold charge_lost. rewrite <- K. destruct (existsb (by_class cfg) (streams (now st))) eqn:By; cbv zeta.
  - set (all := streams (now st)) in *. set (av := available_at cfg c k). set (had := left_at c k) in *.
    set (tk := sum (map (fun s => lost_of cfg st (c, bt) (class_of c s k) had k s) all)).
    set (lv := sum (map (fun s => lost_of cfg st (c, bt) 0 av k s) all)).
    assert (Av : 0 <= av) by (unfold av, available_at, available; lia).
    assert (Tk : sum (map taken all) <= tk) by (apply sum_le; intros s S; destruct (F s S); apply lost_covers; auto; lia).
    assert (Lv : 0 <= lv).
    { apply sum_nonneg. intros x X. apply in_map_iff in X as [s [<- _]]. apply lost_nonneg; auto. }
    split; [|split; [|split; [|split; [|auto]]]].
    + unfold Ledger.left_at at 1. cbn [table].
      destruct (view_same k {| spent := av - Z.min lv av - (had - Z.min tk had); active := active (view k (table c)); epoch := k |}
        eq_refl) as [-> _]. cbn [spent].
      unfold available_at at 1, Ledger.held at 1. cbn [levies assigned]. rewrite levied_app. cbn [fst snd]. rewrite Z.leb_refl, <- C1.
      assert (available (epsilon cfg - assigned c) (levied k (levies c) + Z.min lv av) = av - Z.min lv av)
        by (unfold av, available_at, available, Ledger.held in *; lia).
      rewrite H. unfold left. lia.
    + split; [|exact Ao]. split; cbn; [apply (active_view k k _ At)|left; lia].
    + intros x X. cbn [levies] in X. apply in_app_or in X as [X|[<-|[]]]; [now apply C2|cbn; lia].
    + intros X. cbn in X. unfold all, streams in By. unfold streams in X. cbn in X. congruence.
  - assert (T : forall s, In s (streams (now st)) -> taken s <= get 0 s (billed (seen st)) - get 0 s bt).
    { intros s S. destruct (F s S) as [_ G]. unfold follows in G. destruct (by_class cfg s) eqn:B; [|exact G].
      exfalso. apply not_true_iff_false in By. apply By, existsb_exists. eauto. }
    pose proof (sum_le _ _ _ T) as Ts. cbv beta in Ts.
    set (u := sum (map (fun s => get 0 s (billed (seen st)) - get 0 s bt) (streams (now st)))) in *.
    assert (U : 0 <= u) by (apply sum_nonneg; intros x X; apply in_map_iff in X as [s [<- _]]; specialize (C7 s); lia).
    assert (Sp : 0 <= spent (table c)).
    { apply Cs. apply not_true_iff_false. intros X. apply existsb_exists in X as [s [S X]].
      apply not_true_iff_false in By. apply By, existsb_exists. exists s. split; [apply C4, has_in, S|exact X]. }
    split; [|split; [|split; [|split; [|auto]]]].
    + assert (Sv : 0 <= spent (view k (table c))) by (unfold view; destruct (epoch (table c) <? k); cbn; lia).
      unfold Ledger.left_at, left, available_at, available, Ledger.held in *. cbn [table levies assigned] in *.
      rewrite levied_app. cbn [fst snd]. rewrite Z.leb_refl. lia.
    + split; [exact At|exact Ao].
    + intros x X. cbn [levies] in X. apply in_app_or in X as [X|[<-|[]]]; [now apply C2|exact U].
    + intros _. exact Sp.
Qed.

Lemma restore_keeps : forall st number st' out, invariant st -> step st (Restore number) = Some (st', out) -> invariant st'.
Proof.
  intros st number st' out I E. cbn [Ledger.step] in E.
  destruct (nth_error (copies st) number) as [[c bt]|] eqn:Nth; [|discriminate]. apply nth_error_In in Nth.
  destruct (_ && _) eqn:G in E; [|discriminate]. apply andb_true_iff in G as [G1 G2].
  assert (N : slots (now st) <> []) by (destruct (slots (now st)); [discriminate|congruence]).
  assert (Cov : forall s, In s (streams (now st)) -> has s (slots c) = true) by (now rewrite forallb_forall in G1).
  set (k := epoch_of (newest (slots (now st)))).
  destruct (newest_reached st I N) as [Rk Rle]. fold k in Rk, Rle.
  destruct (charge_lost_covers st c bt k I Nth N Cov eq_refl) as (Ll & Ok & Lo & So & Ea & Es & Eo).
  set (a := charge_lost cfg st (c, bt)) in *.
  injection E as <- _.
  match goal with |- invariant ?x => set (st' := x) end.
  assert (Str : streams a = streams (now st)) by (unfold streams; now rewrite Es).
  assert (Last : forall x, last_of a x = last_of (now st) x) by (intros; unfold last_of; now rewrite Es).
  assert (Re : forall x, reached st' x -> reached st x).
  { intros x [R1 R2]. split; [|assumption]. intros s S. cbn [now st'] in R1. rewrite <- Last. apply R1. now rewrite Str. }
  assert (Eh : held a = held (now st)) by (unfold Ledger.held; now rewrite Ea).
  assert (Mk : forall s, marks st' s = if mem s (streams (now st)) then last_of (now st) s :: marks st s else marks st s).
  { intros s. unfold marks. cbn [seen restored st']. apply marks_after, (i_streams _ _ I). }
  assert (Later : forall x, k < x -> debits x (paid st) = 0) by (intros x X; apply (i_later _ _ I k x Rk X)).
  pose proof (i_held _ _ I) as Hh.
  constructor; cbn [now seen copies paid st'].
  - rewrite Str. apply (i_streams _ _ I).
  - now rewrite Eh.
  - exact Lo.
  - rewrite Str. apply (i_single _ _ I).
  - exact So.
  - intros x R. pose proof (Rle x (Re x R)) as Kx. split.
    + destruct Ok as [O1 O2]. split; [|intros y]; eapply standing_later; eauto.
    + rewrite Eh. destruct (Z.eq_dec k x) as [<-|D]; [exact Ll|]. rewrite (Later x ltac:(lia)), <- Eh, Z.sub_0_r.
      apply (fresh_left cfg epsilon_range a k x Ok Lo); lia.
  - rewrite Eh. apply (i_epoch _ _ I).
  - intros x y R. apply (i_later _ _ I x y (Re x R)).
  - apply (i_paid _ _ I).
  - apply (i_shares _ _ I).
  - intros s x X. rewrite Mk in X. rewrite Str, Last. destruct (mem s (streams (now st))) eqn:M; [|apply (i_marks _ _ I s x X)].
    destruct X as [<-|X]; [|apply (i_marks _ _ I s x X)]. split; [now apply mem_in|lia].
  - intros [c2 bt2] J. destruct (i_copies _ _ I _ J) as (C1 & C2 & C3 & C4 & Cs & Cl & C5).
    unfold copy_ok. cbn [now seen st']. rewrite Str. split; [now rewrite Ea|]. split; [assumption|].
    split; [intros x R; apply C3, Re, R|]. split; [assumption|]. split; [assumption|]. split; [intros x R; apply Cl, Re, R|].
    intros Cov2. destruct (C5 Cov2) as (C6 & C7 & C8). split; [intros x X; rewrite Last; now apply C6|]. split; [exact C7|].
    intros x R. destruct (Z.eq_dec k x) as [<-|D].
    2:{ pose proof (Rle x (Re x R)). apply (covered_fresh cfg epsilon_range top_range st' c2 bt2 k x); cbn [now seen paid st'];
          [apply (i_shares _ _ I)|rewrite Eh; lia|exact Ok|apply (C3 k Rk)|lia|now rewrite Ea|exact C2|apply Later; lia|exact C7]. }
    destruct (C8 k Rk) as (taken & F & Le). exists taken. cbn [now seen paid st']. rewrite Str, Eh. split; [|exact Le].
    intros s S. destruct (F s S) as [Fr Fs]. split; [exact Fr|]. unfold follows in *. destruct (by_class cfg s); [|exact Fs].
    destruct Fs as (m0 & j & b & an & n & W & A & M & Jn & Cc & T). specialize (C6 s S).
    assert (Fi : first_lost c2 s k <= last_of (now st) s + 1).
    { unfold Ledger.first_lost. destruct (Z.eqb_spec (period cfg) 0) as [|P]; [lia|].
      assert (k = epoch_of (last_of (now st) s)).
      { apply Z.le_antisymm; [|apply Rk, S]. apply (Rle (epoch_of (last_of (now st) s))). split; [|apply epoch_none].
        intros y Y. rewrite (i_single _ _ I P y s Y S). lia. }
      pose proof (Z.mul_div_le (last_of (now st) s) (period cfg) ltac:(lia)). unfold Ledger.epoch_of in H. lia. }
    destruct (restore_any_class cfg (shares st s) (left_at c2 k) (class_of c2 s k) (first_lost c2 s k) (last_of (now st) s)
      (marks st s) b an n (i_shares _ _ I s) (left_nonneg cfg c2 k) Fi W) as (b' & W' & B').
    destruct (walk_range cfg (shares st s) (left_at c2 k) (class_of c2 s k) (first_lost c2 s k) (last_of (now st) s) (marks st s)
      (i_shares _ _ I s) (left_nonneg cfg c2 k)) as (b0 & a0 & n0 & W0 & R0). rewrite W in W0. injection W0 as <- <- <-.
    pose proof (finish_covers cfg (shares st s) (left_at c2 k) (class_of c2 s k) b an n m0 j (i_shares _ _ I s) ltac:(lia) A M Jn).
    exists (class_of a s k), O, b', true, O. cbn [now st']. rewrite Mk, Last.
    assert (Ms : mem s (streams (now st)) = true) by (now apply mem_in). rewrite Ms.
    split; [exact W'|]. pose proof (class_range cfg top_range a s k k Ok). cbn [Ledger.pays Z.of_nat].
    repeat split; try lia; try discriminate.
Qed.

(** ** The theorems *)

Lemma start_keeps : forall n, 0 <= n <= epsilon cfg -> invariant (start n).
Proof.
  intros n Hn. assert (H : held (now (start n)) = epsilon cfg - n) by (unfold Ledger.held; cbn; lia).
  constructor; try rewrite H.
  - constructor.
  - lia.
  - intros x [].
  - intros _ x y [].
  - intros _. cbn. lia.
  - intros k R. split; [split; [|intros s]; split; cbn; try lia; right; auto|].
    unfold Ledger.left_at, left, available_at, available, Ledger.held, view. cbn. destruct (0 <? k); cbn; lia.
  - intros k. cbn. lia.
  - reflexivity.
  - intros p [].
  - intros s m. pose proof STEPS_pos. unfold shares, share_of. cbn. lia.
  - intros s x [].
  - intros copy [].
Qed.

(** What can happen, in any order and for ever. *)
Inductive trace : state -> Prop :=
  | begins : forall n, 0 <= n <= epsilon cfg -> trace (start n)
  | goes_on : forall st x st' out, trace st -> honest st x -> step st x = Some (st', out) -> trace st'.

Theorem trace_invariant : forall st, trace st -> invariant st.
Proof.
  induction 1 as [n N|st x st' out _ I H E]; [apply start_keeps, N|]. destruct x.
  - destruct (in_turn cfg (now st) stream slot && negb (by_class cfg stream) && (0 <=? e) && (0 <? num) && (num <=? den) &&
      (den <=? SHARE_STEPS)) eqn:G; [|cbn [Ledger.step] in E; rewrite G in E; discriminate].
    destruct (pay_policy_keeps cfg epsilon_range top_range period_range st stream slot e num den whole here I G) as (s1 & o1 & E1 & K). rewrite E1 in E. now injection E as <- _.
  - destruct (in_turn cfg (now st) stream slot && by_class cfg stream && well_asked cfg groups) eqn:G;
      [|cbn [Ledger.step] in E; rewrite G in E; discriminate].
    destruct (pay_class_keeps cfg epsilon_range top_range period_range st stream slot groups whole here I G) as (s1 & o1 & E1 & K). rewrite E1 in E. now injection E as <- _.
  - eapply levy_keeps; eauto.
  - eapply assign_keeps; eauto.
  - eapply copy_keeps; eauto.
  - eapply restore_keeps; eauto.
Qed.

Lemma losses_le_debits : forall k l, (forall p, In p l -> snd p <= snd (fst p) * GRAINS) -> losses k l <= debits k l * GRAINS.
Proof.
  intros k. induction l as [|[[x d] e] l IH]; intros H; [cbn; lia|].
  pose proof (H _ (or_introl eq_refl)) as P. specialize (IH (fun q Q => H q (or_intror Q))). cbn [fst snd] in P.
  change (losses k ((x, d, e) :: l)) with ((if x =? k then e else 0) + losses k l).
  change (debits k ((x, d, e) :: l)) with ((if x =? k then d else 0) + debits k l). destruct (x =? k); lia.
Qed.

(** Σ E · grains ≤ what the account holds · 2^24, in every epoch, on every trace. *)
Theorem ledger_keeps_held : forall st, trace st -> forall k, losses k (paid st) <= held (now st) * GRAINS.
Proof.
  intros st T k. pose proof (trace_invariant st T) as I. pose proof (i_epoch _ _ I k). pose proof GRAINS_pos.
  pose proof (losses_le_debits k (paid st) (fun p P => proj1 (proj2 (i_paid _ _ I p P)))). nia.
Qed.

Theorem ledger_keeps_epsilon : forall st, trace st -> forall k, losses k (paid st) <= epsilon cfg * GRAINS.
Proof.
  intros st T k. pose proof (ledger_keeps_held st T k). pose proof GRAINS_pos.
  enough (held (now st) <= epsilon cfg) by nia.
  assert (0 <= assigned (now st)); [|unfold Ledger.held; lia].
  clear -T. induction T as [n N|st x st' out _ IH _ E]; [cbn; lia|]. destruct x; cbn [Ledger.step] in E.
  1-2: destruct (_ && _) in E; [|discriminate]; try destruct (weights_by_class _ _ _ _ _); unfold settle, pay in E;
    destruct (_ <=? 0) in E; [|destruct (_ <? _) in E; [discriminate|]]; injection E as <- _; exact IH.
  - destruct (0 <=? units); [|discriminate]. injection E as <- _. exact IH.
  - destruct (Z.leb_spec 0 units); [|discriminate]. destruct (_ && _) in E; [|discriminate]. injection E as <- _. exact H.
  - injection E as <- _. exact IH.
  - destruct (nth_error (copies st) number) as [[c bt]|]; [|discriminate]. destruct (_ && _) in E; [|discriminate].
    injection E as <- _. cbn. destruct (existsb _ _); exact IH.
Qed.

(** No bill that the ledger wrote is refused: whether a slot is paid follows from public things alone. *)
Theorem no_bill_is_refused : forall st, trace st ->
  (forall s t groups whole here, in_turn cfg (now st) s t && by_class cfg s && well_asked cfg groups = true ->
     step st (PayClass s t groups whole here) <> None) /\
  (forall s t e num den whole here,
     in_turn cfg (now st) s t && negb (by_class cfg s) && (0 <=? e) && (0 <? num) && (num <=? den) && (den <=? SHARE_STEPS) = true ->
     step st (PayPolicy s t e num den whole here) <> None).
Proof.
  intros st T. pose proof (trace_invariant st T) as I. split; intros.
  - destruct (pay_class_keeps cfg epsilon_range top_range period_range st s t groups whole here I H) as (x & y & -> & _). discriminate.
  - destruct (pay_policy_keeps cfg epsilon_range top_range period_range st s t e num den whole here I H) as (x & y & -> & _). discriminate.
Qed.

End Trace.
