(** Public bounds: the most that a stream can have cost any user, as certificates state it, bounds what u has paid.

    A stream without classes states the sum of its budgets. By class it states the largest of the bounds of its classes
    ([dpi.budget.classes]): what a user of class m can have spent. So a quota that is given of what no user can have spent
    is given of what u has not spent, and no hypothesis about it is needed. *)

From Coq Require Import ZArith List Bool Lia Permutation.
Require Import Ledger Lost Invariant Payments Trace.
Import ListNotations.
Open Scope Z_scope.

(** ** Books: u's account of one pool, and what is said of it in public *)

Record book := {
  of : state;
  since : list (Z * Z);                  (* by stream: its first slot *)
  base : list (Z * Z);                   (* by stream: what accounts hold, as its bounds know it *)
  most : list (Z * list (Z * Z));        (* by stream and class: the most that a user of it can have spent *)
  most_then : list (list (Z * list (Z * Z)));   (* the same of each copy *)
  past : list (Z * Z);                   (* by stream: the most that was spent in the epochs before *)
  past_then : list (list (Z * Z));
  paid_in : list (Z * Z);                (* by stream: what u has truly paid *)
  paid_then : list (list (Z * Z))
}.
Definition opened (n : Z) : book :=
  {| of := start n; since := []; base := []; most := []; most_then := []; past := []; past_then := []; paid_in := []; paid_then := [] |}.

Section Bounds.
Variable cfg : config.

Definition base_of (b : book) (s : Z) : Z := get (held cfg (now (of b))) s (base b).
Definition newcomers : list (Z * Z) := [(0, 0)].             (* nobody is beyond class 0, and nothing is spent *)
Definition said (b : list (Z * list (Z * Z))) (s : Z) : list (Z * Z) := get newcomers s b.
Definition paid_by (l : list (Z * Z)) (s : Z) : Z := get 0 s l.

(** In a new epoch accounts are full, and nobody has paid ([Bounds._entered]). *)
Definition largest_of (l : list (Z * Z)) : Z := fold_right Z.max 0 (map snd l).
Definition epoch_now (a : accounts) (s : Z) : Z := epoch_of cfg (last_of a s).
Definition entered (b : book) (s t : Z) : list (Z * Z) :=
  if epoch_of cfg t =? epoch_now (now (of b)) s then said (most b) s else newcomers.
Definition past_at (b : book) (s t : Z) : list (Z * Z) :=
  if epoch_of cfg t =? epoch_now (now (of b)) s then past b else set s (paid_by (past b) s + largest_of (said (most b) s)) (past b).

Definition next (m : Z) : Z := Z.min (m + 1) (top cfg).
(** A class that is due: who was in it, and pays, is in the next one, and has spent at most this ([Bounds.draw]). *)
Definition draw_one (e : Z) (before after : list (Z * Z)) (class : Z * Z) : list (Z * Z) :=
  let (m, f) := class in
  if has m before
  then set (next m) (Z.max (get 0 (next m) after) (get 0 m before + parts (e - get 0 m before) f)) after
  else after.
Definition draw (e : Z) (before : list (Z * Z)) (groups : list group) : list (Z * Z) :=
  fold_left (draw_one e before) (concat (map snd groups)) before.

(** After lost slots, from what a copy says on ([Bounds.after_lost]): everybody paid the most, and as the first of these
    slots may have been paid for in the copy, a user may be a class further on than it says. *)
Definition taken_most (sh : Z -> Z) (e first last : Z) (marks : list Z) (before : list (Z * Z)) : list (Z * Z) :=
  map (fun c => (fst c, snd c + most_taken cfg (fun j => raised (sh j)) (e - snd c) (fst c) first last marks)) before.
Definition further_on (l : list (Z * Z)) : list (Z * Z) :=
  fold_left (fun acc c => let n := next (fst c) in
    set n (Z.max (get 0 n acc) (if has n l then snd c else fold_right Z.max 0 (map snd l))) acc) l l.
Definition after_lost (sh : Z -> Z) (e first last : Z) (marks : list Z) (before : list (Z * Z)) : list (Z * Z) :=
  if last <? first then before else further_on (taken_most sh e first last marks before).

(** The most that a stream can have cost a user, and all streams of these accounts together. *)
Definition stated (b : book) (s : Z) : Z :=
  if by_class cfg s then fold_right Z.max 0 (map snd (said (most b) s)) else get 0 s (billed (seen (of b))).
Definition stated_by_all (b : book) : Z := sum (map (stated b) (streams (now (of b)))).

(** A step of the ledger, and of what is said of it. Nobody levies by hand, and a quota is given of what no user of the
    rest can have spent: both follow from public things, and verifiers check them. *)
Definition allowed (b : book) (x : action) : bool :=
  match x with
  | Levy _ _ => false
  | Assign units bound => (units <=? assigned (now (of b))) || (stated_by_all b <=? bound)
  | _ => true
  end.

Definition based (b : book) (s : Z) : list (Z * Z) := set s (base_of b s) (base b).
Definition first_of (b : book) (s t : Z) : list (Z * Z) := if has s (since b) then since b else set s t (since b).
Definition more (s d : Z) (l : list (Z * Z)) : list (Z * Z) := set s (paid_by l s + d) l.

(** Bounds of a stream where a copy goes on: lost slots of earlier epochs may have cost all of each. *)
Definition lost_bounds (b : book) (c : accounts) (then_ : list (Z * list (Z * Z))) (s : Z) : list (Z * Z) :=
  after_lost (share_of (seen (of b)) s) (base_of b s) (first_lost cfg c s (epoch_now (now (of b)) s)) (last_of (now (of b)) s)
             (get [] s (restored (seen (of b))))
             (if epoch_now c s =? epoch_now (now (of b)) s then said then_ s else newcomers).
Definition lost_past (b : book) (c : accounts) (past_then_ : list (Z * Z)) (s : Z) : Z :=
  paid_by past_then_ s +
  (if epoch_now c s =? epoch_now (now (of b)) s then 0
   else (epoch_now (now (of b)) s - epoch_now c s) * base_of b s).

Definition book_step (b : book) (x : action) : option (book * (Z * Z)) :=
  if negb (allowed b x) then None else
  match step cfg (of b) x with
  | None => None
  | Some (st', (grains, cost)) =>
      Some (match x with
      | PayPolicy s t _ _ _ _ _ =>
          {| of := st'; since := first_of b s t; base := based b s; most := most b; most_then := most_then b;
             past := past b; past_then := past_then b;
             paid_in := more s cost (paid_in b); paid_then := paid_then b |}
      | PayClass s t groups _ _ =>
          {| of := st'; since := first_of b s t; base := based b s; most := set s (draw (base_of b s) (entered b s t) groups) (most b);
             most_then := most_then b; past := past_at b s t; past_then := past_then b; paid_in := more s cost (paid_in b); paid_then := paid_then b |}
      | Assign _ _ =>
          {| of := st'; since := since b; base := map (fun x => (fst x, Z.max (snd x) (held cfg (now st')))) (base b); most := most b;
             most_then := []; past := past b; past_then := []; paid_in := paid_in b; paid_then := [] |}
      | Copy =>
          {| of := st'; since := since b; base := base b; most := most b; most_then := most b :: most_then b;
             past := past b; past_then := past b :: past_then b; paid_in := paid_in b; paid_then := paid_in b :: paid_then b |}
      | Restore n =>
          let c := fst (nth n (copies (of b)) (now (of b), [])) in
          {| of := st'; since := since b; base := base b;
             most := map (fun s => (s, lost_bounds b c (nth n (most_then b) []) s)) (streams (now (of b)));
             most_then := most_then b;
             past := map (fun s => (s, lost_past b c (nth n (past_then b) []) s)) (streams (now (of b)));
             past_then := past_then b; paid_in := paid_in b; paid_then := paid_then b |}
      | Levy _ _ => b
      end, (grains, cost))
  end.

(** What can happen to a book, in any order and for ever. *)
Inductive book_trace : book -> Prop :=
  | book_opens : forall n, 0 <= n <= epsilon cfg -> book_trace (opened n)
  | book_goes_on : forall b x b' out, book_trace b -> book_step b x = Some (b', out) -> book_trace b'.

Hypothesis epsilon_range : 0 <= epsilon cfg <= LARGEST.
Hypothesis top_range : 0 <= top cfg.
Hypothesis period_range : 0 <= period cfg.

Notation left_at := (left_at cfg).
Notation class_of := (class_of cfg).
Notation held := (held cfg).
Notation invariant := (invariant cfg).

(** ** What lost slots take, of accounts that hold more or less *)

(** With more to take from, as much is taken, and as much is left. *)
Definition ahead (h b h' b' : Z) : Prop := b <= b' /\ h - b <= h' - b'.

Lemma pays_ahead : forall sh h h' b b' m n, shares_ok sh -> b <= h -> ahead h b h' b' ->
  ahead h (pays cfg sh h b m n) h' (pays cfg sh h' b' m n) /\ pays cfg sh h b m n <= h.
Proof.
  intros sh h h' b b' m n S B A. induction n as [|n [[I1 I2] I3]]; cbn [pays]; [auto|].
  set (f := sh (Z.min (m + Z.of_nat n) (top cfg))). assert (F : 0 <= f <= SHARE_STEPS) by apply S.
  set (x := pays cfg sh h b m n) in *. set (y := pays cfg sh h' b' m n) in *. unfold ahead.
  pose proof (parts_mono (h - x) (h' - y) f f ltac:(lia) ltac:(lia)). pose proof (rest_mono (h - x) (h' - y) f ltac:(lia) F).
  pose proof (parts_le (h - x) f ltac:(lia) F). lia.
Qed.

Lemma finish_ahead : forall sh h h' own b b' a n, shares_ok sh -> b <= h -> ahead h b h' b' ->
  ahead h (finish cfg sh h own (b, a, n)) h' (finish cfg sh h' own (b', a, n)) /\ finish cfg sh h own (b, a, n) <= h.
Proof.
  intros sh h h' own b b' a n S B A. unfold finish. destruct a; [|now apply pays_ahead].
  set (l := slots_between 0 (top cfg)). destruct A as [A1 A2].
  destruct (fold_max_ge (map (fun m => pays cfg sh h b m n) l) b) as [G1 G2].
  destruct (fold_max_ge (map (fun m => pays cfg sh h' b' m n) l) b') as [G1' G2'].
  split; [split|].
  - apply fold_max_le; [lia|]. intros x X. apply in_map_iff in X as [m [<- M]].
    destruct (pays_ahead sh h h' b b' m n S B (conj A1 A2)) as [[P1 P2] P3].
    specialize (G2' _ (in_map (fun m => pays cfg sh h' b' m n) l m M)). cbv beta in G2'. lia.
  - enough (fold_right Z.max b' (map (fun m => pays cfg sh h' b' m n) l) <=
            fold_right Z.max b (map (fun m => pays cfg sh h b m n) l) + (h' - h)) by lia.
    apply fold_max_le; [lia|]. intros x X. apply in_map_iff in X as [m [<- M]].
    destruct (pays_ahead sh h h' b b' m n S B (conj A1 A2)) as [[P1 P2] P3].
    specialize (G2 _ (in_map (fun m => pays cfg sh h b m n) l m M)). cbv beta in G2. lia.
  - apply fold_max_le; [lia|]. intros x X. apply in_map_iff in X as [m [<- M]].
    apply (pays_ahead sh h h' b b' m n S B (conj A1 A2)).
Qed.

Lemma taken_ahead : forall sh h h' own first last rs, shares_ok sh -> 0 <= h <= h' ->
  ahead h (most_taken cfg sh h own first last rs) h' (most_taken cfg sh h' own first last rs) /\
  0 <= most_taken cfg sh h own first last rs <= h.
Proof.
  intros sh h h' own first last rs S H.
  assert (W : forall l b b' a n, 0 <= b <= h -> ahead h b h' b' -> exists c c' d m,
            fold_left (advance cfg sh h own rs) l (b, a, n) = (c, d, m) /\
            fold_left (advance cfg sh h' own rs) l (b', a, n) = (c', d, m) /\ 0 <= c <= h /\ ahead h c h' c').
  { induction l as [|t l IH]; intros b b' a n B A; cbn [fold_left]; [exists b, b', a, n; auto|].
    unfold advance at 2 4. destruct (mem t rs); [|now apply IH].
    destruct (finish_ahead sh h h' own b b' a (Datatypes.S n) S ltac:(lia) A) as [F1 F2]. apply IH; [|exact F1].
    split; [|exact F2]. destruct (finish_mono cfg sh sh h own b b a (Datatypes.S n) S S ltac:(intros; lia) ltac:(lia) ltac:(lia)). lia. }
  destruct (W (slots_between first last) 0 0 (mem (first - 1) rs) O ltac:(lia) ltac:(unfold ahead; lia))
    as (c & c' & d & m & E1 & E2 & E3 & E4).
  unfold most_taken, walk. rewrite E1, E2. destruct (finish_ahead sh h h' own c c' d m S ltac:(lia) E4) as [F1 F2].
  split; [exact F1|]. destruct (finish_mono cfg sh sh h own c c d m S S ltac:(intros; lia) ltac:(lia) ltac:(lia)). lia.
Qed.

(** ** Bounds of classes *)

Definition bounds_ok (e : Z) (l : list (Z * Z)) : Prop :=
  has 0 l = true /\ (forall m, 0 <= get 0 m l <= e) /\ forall c, In c l -> 0 <= snd c <= e.

Lemma in_set : forall (l : list (Z * Z)) k v c, In c (set k v l) -> c = (k, v) \/ In c l.
Proof.
  induction l as [|[x b] l IH]; intros k v c H; cbn in H.
  - destruct H as [<-|[]]. now left.
  - destruct (x =? k); destruct H as [<-|H]; try (now left); try (right; now right); try (right; now left).
    destruct (IH _ _ _ H); [now left|right; now right].
Qed.

Lemma draw_grows : forall e before groups, bounds_ok e before ->
  (forall c, In c (concat (map snd groups)) -> 0 <= snd c <= SHARE_STEPS) ->
  bounds_ok e (draw e before groups) /\ (forall m, get 0 m before <= get 0 m (draw e before groups)) /\
  (forall m, has m before = true -> has m (draw e before groups) = true) /\
  forall m f, In (m, f) (concat (map snd groups)) -> has m before = true ->
    has (next m) (draw e before groups) = true /\
    get 0 m before + parts (e - get 0 m before) f <= get 0 (next m) (draw e before groups).
Proof.
  intros e before groups B. unfold draw. generalize (concat (map snd groups)). intros l F.
  assert (G : forall acc, bounds_ok e acc -> (forall m, get 0 m before <= get 0 m acc) ->
    bounds_ok e (fold_left (draw_one e before) l acc) /\
    (forall m, get 0 m acc <= get 0 m (fold_left (draw_one e before) l acc)) /\
    (forall m, has m acc = true -> has m (fold_left (draw_one e before) l acc) = true) /\
    forall m f, In (m, f) l -> has m before = true -> has (next m) (fold_left (draw_one e before) l acc) = true /\
      get 0 m before + parts (e - get 0 m before) f <= get 0 (next m) (fold_left (draw_one e before) l acc)).
  { induction l as [|[m f] l IH]; intros acc A L; cbn [fold_left].
    - split; [exact A|]. split; [intros; lia|]. split; [auto|]. intros m f [].
    - assert (Fm : 0 <= f <= SHARE_STEPS) by (apply (F (m, f)); now left).
      destruct B as (B1 & B2 & B3). pose proof (B2 m) as Bm. pose proof (parts_le (e - get 0 m before) f ltac:(lia) Fm) as P.
      assert (One : bounds_ok e (draw_one e before acc (m, f)) /\ (forall j, get 0 j acc <= get 0 j (draw_one e before acc (m, f))) /\
                (forall j, has j acc = true -> has j (draw_one e before acc (m, f)) = true) /\
                (has m before = true -> has (next m) (draw_one e before acc (m, f)) = true /\
                  get 0 m before + parts (e - get 0 m before) f <= get 0 (next m) (draw_one e before acc (m, f)))).
      { unfold draw_one. destruct (has m before); [|split; [exact A|]; split; [intros; lia|]; split; [auto|discriminate]].
        destruct A as (A1 & A2 & A3). pose proof (A2 (next m)) as An. split; [split; [|split]|split; [|split]].
        - rewrite has_set, A1. apply orb_true_r.
        - intros j. rewrite get_set. destruct (next m =? j); [lia|apply A2].
        - intros c C. apply in_set in C as [->|C]; [cbn; lia|now apply A3].
        - intros j. rewrite get_set. destruct (Z.eqb_spec (next m) j); [subst; lia|lia].
        - intros j J. rewrite has_set, J. apply orb_true_r.
        - intros _. rewrite has_set, Z.eqb_refl, get_set, Z.eqb_refl. split; [reflexivity|lia]. }
      destruct One as (O1 & O2 & O3 & O4).
      destruct (IH (fun c C => F c (or_intror C)) (draw_one e before acc (m, f)) O1) as (I1 & I2 & I3 & I4).
      { intros j. specialize (L j). specialize (O2 j). lia. }
      split; [exact I1|]. split; [intros j; specialize (O2 j); specialize (I2 j); lia|]. split; [auto|].
      intros m' f' [E|M] H; [|auto]. injection E as -> ->. destruct (O4 H) as [O5 O6]. split; [auto|].
      specialize (I2 (next m')). lia. }
  destruct (G before B ltac:(intros; lia)) as (G1 & G2 & G3 & G4). auto.
Qed.

Lemma get_map : forall (f : Z -> Z -> Z) (l : list (Z * Z)) m, has m l = true ->
  get 0 m (map (fun c => (fst c, f (fst c) (snd c))) l) = f m (get 0 m l).
Proof.
  intros f. induction l as [|[x b] l IH]; intros m H; [discriminate|]. cbn in *.
  destruct (Z.eqb_spec x m); [now subst|]. now apply IH.
Qed.

Lemma has_map : forall (f : Z -> Z -> Z) (l : list (Z * Z)) m, has m (map (fun c => (fst c, f (fst c) (snd c))) l) = has m l.
Proof. intros f. induction l as [|[x b] l IH]; intros m; cbn; [reflexivity|]. now rewrite IH. Qed.

Lemma get_absent : forall (l : list (Z * Z)) m, has m l = false -> get 0 m l = 0.
Proof. induction l as [|[x b] l IH]; intros m H; cbn in *; [reflexivity|]. destruct (x =? m); [discriminate|auto]. Qed.

Lemma taken_most_ok : forall sh e first last marks l, shares_ok sh -> bounds_ok e l ->
  bounds_ok e (taken_most sh e first last marks l) /\
  (forall m, has m (taken_most sh e first last marks l) = has m l) /\
  forall m, has m l = true -> get 0 m (taken_most sh e first last marks l) =
    get 0 m l + most_taken cfg (fun j => raised (sh j)) (e - get 0 m l) m first last marks.
Proof.
  intros sh e first last marks l S (B1 & B2 & B3). destruct (raised_ok sh S) as [S' _]. unfold taken_most.
  set (f := fun m x => x + most_taken cfg (fun j => raised (sh j)) (e - x) m first last marks).
  assert (R : forall m x, 0 <= x <= e -> 0 <= f m x <= e).
  { intros m x X. unfold f. destruct (taken_ahead _ (e - x) (e - x) m first last marks S' ltac:(lia)). lia. }
  change (fun c => (fst c, snd c + most_taken cfg (fun j => raised (sh j)) (e - snd c) (fst c) first last marks))
    with (fun c => (fst c, f (fst c) (snd c))).
  split; [split; [|split]|split].
  - now rewrite has_map.
  - intros m. destruct (has m l) eqn:H; [rewrite get_map by assumption; apply R, B2|].
    rewrite get_absent by (now rewrite has_map). specialize (B2 m). rewrite get_absent in B2 by assumption. assumption.
  - intros c C. apply in_map_iff in C as [d [<- D]]. cbn. apply R. now apply B3.
  - intros m. apply has_map.
  - intros m H. rewrite get_map by assumption. reflexivity.
Qed.

Lemma further_on_ok : forall e l, bounds_ok e l -> bounds_ok e (further_on l) /\
  (forall m, has m l = true -> has m (further_on l) = true) /\ forall m, get 0 m l <= get 0 m (further_on l).
Proof.
  intros e l B. unfold further_on. set (top_ := fold_right Z.max 0 (map snd l)).
  assert (T : 0 <= top_ <= e).
  { destruct B as (B1 & B2 & B3). destruct (fold_max_ge (map snd l) 0) as [F _]. fold top_ in F. split; [assumption|].
    apply fold_max_le; [specialize (B2 0); lia|]. intros x X. apply in_map_iff in X as [c [<- C]]. now apply B3. }
  assert (G : forall k, incl k l -> forall acc, bounds_ok e acc ->
    let r := fold_left (fun acc c => set (next (fst c)) (Z.max (get 0 (next (fst c)) acc) (if has (next (fst c)) l then snd c else top_)) acc) k acc in
    bounds_ok e r /\ (forall m, has m acc = true -> has m r = true) /\ forall m, get 0 m acc <= get 0 m r).
  { induction k as [|c k IH]; intros K acc A r; [split; [exact A|split; [auto|intros; apply Z.le_refl]]|].
    set (v := if has (next (fst c)) l then snd c else top_).
    assert (V : 0 <= v <= e) by (unfold v; destruct (has _ l); [apply B, K; now left|assumption]).
    destruct A as (A1 & A2 & A3). pose proof (A2 (next (fst c))) as An.
    assert (N : bounds_ok e (set (next (fst c)) (Z.max (get 0 (next (fst c)) acc) v) acc)).
    { split; [|split].
      - rewrite has_set, A1. apply orb_true_r.
      - intros j. rewrite get_set. destruct (next (fst c) =? j); [lia|apply A2].
      - intros d D. apply in_set in D as [->|D]; [cbn; lia|now apply A3]. }
    destruct (IH (fun x X => K x (or_intror X)) _ N) as (I1 & I2 & I3).
    split; [exact I1|]. split.
    - intros m M. apply I2. rewrite has_set, M. apply orb_true_r.
    - intros m. etransitivity; [|apply I3]. rewrite get_set. destruct (Z.eqb_spec (next (fst c)) m); [subst; lia|lia]. }
  exact (G l (incl_refl l) l B).
Qed.

Lemma nothing_lost : forall sh h own first last rs, last < first -> most_taken cfg sh h own first last rs = 0.
Proof.
  intros sh h own first last rs L. unfold most_taken, walk, slots_between. replace (Z.to_nat (last + 1 - first)) with O by lia.
  cbn [zrange fold_left]. unfold finish. destruct (mem (first - 1) rs); [|reflexivity].
  apply Z.le_antisymm; [|apply (proj1 (fold_max_ge _ _))]. apply fold_max_le; [lia|]. intros x X. apply in_map_iff in X as [m [<- _]]. cbn. lia.
Qed.

Lemma after_lost_ok : forall sh e first last marks l, shares_ok sh -> bounds_ok e l ->
  bounds_ok e (after_lost sh e first last marks l) /\
  (forall m, has m l = true -> has m (after_lost sh e first last marks l) = true) /\
  forall m, has m l = true ->
    get 0 m l + most_taken cfg (fun j => raised (sh j)) (e - get 0 m l) m first last marks <= get 0 m (after_lost sh e first last marks l).
Proof.
  intros sh e first last marks l S B. unfold after_lost. destruct (Z.ltb_spec last first).
  { split; [exact B|]. split; [auto|]. intros m M. rewrite nothing_lost by assumption. lia. }
  destruct (taken_most_ok sh e first last marks l S B) as (T1 & T2 & T3).
  destruct (further_on_ok e _ T1) as (F1 & F2 & F3). split; [exact F1|]. split.
  - intros m M. apply F2. now rewrite T2.
  - intros m M. rewrite <- T3 by assumption. apply F3.
Qed.

(** ** What a step of the ledger does, as far as bounds need it *)

Lemma pay_within : forall a s t price grains a' cost, pay cfg a s t price grains = Some (a', cost) ->
  debit price grains <= left_at a (epoch_of cfg t).
Proof.
  intros a s t price grains a' cost Q. unfold pay in Q. pose proof (left_nonneg cfg a (epoch_of cfg t)).
  destruct (Z.leb_spec (debit price grains) 0); [lia|]. unfold Ledger.left_at, left.
  destruct (Z.ltb_spec (available_at cfg a (epoch_of cfg t)) (spent (view (epoch_of cfg t) (table a)) + debit price grains)); [discriminate|lia].
Qed.

Lemma settle_spec : forall st s t price grains seen' st' g d, period cfg = 0 -> invariant st -> in_turn cfg (now st) s t = true ->
  0 <= price -> 0 <= grains ->
  settle cfg st s t price grains seen' = Some (st', (g, d)) ->
  d = debit price grains /\ g = grains /\ 0 <= d /\ (exists x, paid st' = (0, d, x) :: paid st) /\ seen st' = seen' /\ copies st' = copies st /\
  slots (now st') = set s t (slots (now st)) /\ levies (now st') = levies (now st) /\ assigned (now st') = assigned (now st) /\
  (forall x, x <> s \/ by_class cfg s = false \/ d = 0 -> class_of (now st') x 0 = class_of (now st) x 0) /\
  (by_class cfg s = true -> 0 < d -> class_of (now st') s 0 = Z.min (payments (now st) s 0 + 1) (top cfg)).
Proof.
  intros st s t price grains seen' st' g d P I T Hp Hg E. pose proof (epoch_none cfg t P) as K.
  pose proof (turn_reached cfg period_range st s t T) as R. rewrite K in R. destruct (i_now cfg st I 0 R) as [A _].
  unfold settle in E. destruct (pay cfg (now st) s t price grains) as [[a c]|] eqn:Q; [|discriminate]. injection E as <- <- <-.
  cbn [paid seen copies now].
  pose proof (pay_within _ _ _ _ _ _ _ Q) as D. rewrite K in D.
  destruct (pay_spec cfg (now st) s t price grains a c 0 Q (eq_sym K) A Hp Hg D) as (S1 & S2 & S3 & _ & _ & _ & S4 & S5).
  pose proof (debit_nonneg price grains Hp Hg) as N.
  assert (C : c = debit price grains).
  { unfold pay in Q. destruct (Z.leb_spec (debit price grains) 0); [injection Q as _ <-; lia|].
    destruct (_ <? _) in Q; [discriminate|]. now injection Q as _ <-. }
  subst c. rewrite K. repeat split; eauto.
Qed.

Lemma reached_none : forall st, period cfg = 0 -> reached cfg st 0.
Proof. intros st P. split; [|auto]. intros s _. rewrite epoch_none by assumption. lia. Qed.

(** ** The invariant *)

Record good (bs : Z -> Z) (l : list Z) (a : accounts) (billed_then : list (Z * Z)) (M : list (Z * list (Z * Z))) (X : list (Z * Z)) : Prop := {
  g_new : forall s, has s (slots a) = false -> class_of a s 0 = 0 /\ said M s = newcomers /\ paid_by X s = 0;
  g_ok : forall s, has s (slots a) = true -> bounds_ok (bs s) (said M s);
  g_class : forall s, by_class cfg s = true ->
    has (class_of a s 0) (said M s) = true /\ paid_by X s <= get 0 (class_of a s 0) (said M s);
  g_policy : forall s, by_class cfg s = false -> paid_by X s <= get 0 s billed_then;
  g_nonneg : forall s, 0 <= paid_by X s;
  g_levies : exists part : Z -> Z, levied 0 (levies a) = sum (map part l) /\
    forall s, 0 <= part s /\ (has s (slots a) = false -> part s = 0) /\
              part s <= if by_class cfg s then get 0 0 (said M s) else get 0 s billed_then
}.

(** What stream [s] has taken from a user since a copy was made that had this much for it. *)
Definition tracked_in (st : state) (c : accounts) (h s taken : Z) : Prop :=
  exists m0 j b a n,
    walk cfg (shares st s) h (class_of c s 0) (last_of c s + 1) (last_of (now st) s) (marks st s) = (b, a, n) /\
    (a = false -> m0 = class_of c s 0) /\ 0 <= m0 <= top cfg /\ (j <= n)%nat /\
    class_of (now st) s 0 = Z.min (m0 + Z.of_nat j) (top cfg) /\
    taken <= pays cfg (shares st s) h b m0 j.

Record bounded (b : book) : Prop := {
  b_length : length (most_then b) = length (copies (of b)) /\ length (paid_then b) = length (copies (of b));
  b_base : forall s, held (now (of b)) <= base_of b s;
  b_begun : forall s, has s (slots (now (of b))) = true -> has s (base b) = true;
  b_now : good (base_of b) (streams (now (of b))) (now (of b)) (billed (seen (of b))) (most b) (paid_in b);
  b_sum : debits 0 (paid (of b)) = sum (map (paid_by (paid_in b)) (streams (now (of b))));
  b_copies : forall n c bt, nth_error (copies (of b)) n = Some (c, bt) ->
    good (base_of b) (streams (now (of b))) c bt (nth n (most_then b) []) (nth n (paid_then b) []) /\
    ((forall s, In s (streams (now (of b))) -> has s (slots c) = true) ->
     forall s, In s (streams (now (of b))) -> by_class cfg s = true ->
     tracked_in (of b) c (base_of b s - paid_by (nth n (paid_then b) []) s) s
                (paid_by (paid_in b) s - paid_by (nth n (paid_then b) []) s))
}.

Lemma newcomers_ok : forall e, 0 <= e -> bounds_ok e newcomers.
Proof.
  intros e E. split; [reflexivity|]. split.
  - intros m. cbn. destruct m; cbn; lia.
  - intros c [<-|[]]. cbn. lia.
Qed.

Lemma in_streams : forall a s, In s (streams a) <-> has s (slots a) = true.
Proof. intros. unfold streams. symmetry. apply has_in. Qed.

Lemma sum_set : forall (f : Z -> Z) (l : list (Z * Z)) s t, (has s l = false -> f s = 0) ->
  sum (map f (map fst (set s t l))) = sum (map f (map fst l)).
Proof.
  intros f l s t H. rewrite keys_set. destruct (has s l); [reflexivity|]. rewrite map_app, sum_app. cbn. rewrite H by reflexivity. lia.
Qed.

Lemma tracked_in_grows : forall st st' c h s taken, tracked_in st c h s taken -> 0 <= h ->
  shares_ok (shares st s) -> shares_ok (shares st' s) -> (forall m, shares st s m <= shares st' s m) ->
  marks st' s = marks st s -> last_of (now st) s <= last_of (now st') s ->
  (forall x, In x (marks st s) -> x <= last_of (now st) s) ->
  class_of (now st') s 0 = class_of (now st) s 0 -> tracked_in st' c h s taken.
Proof.
  intros st st' c h s taken (m0 & j & b & a & n & W & A & M & J & C & T) H S S' L E La R Cl.
  destruct (walk_mono cfg (shares st s) (shares st' s) h (class_of c s 0) (marks st s)
    (slots_between (last_of c s + 1) (last_of (now st) s)) 0 0 (mem (last_of c s + 1 - 1) (marks st s)) O S S' L
    ltac:(lia) H) as (b1 & b2 & d & n' & E1 & E2 & E3 & E4).
  unfold walk in W. rewrite E1 in W. injection W as -> -> ->.
  pose proof (walk_more cfg (shares st' s) h (class_of c s 0) (last_of c s + 1) _ _ _ _ _ _ La R E2) as W'.
  exists m0, j, b2, a, (n + length (slots_between (Z.max (last_of c s + 1) (last_of (now st) s + 1)) (last_of (now st') s)))%nat.
  rewrite E. split; [exact W'|]. repeat split; auto; try lia; try (now rewrite Cl).
  pose proof (pays_mono cfg (shares st s) (shares st' s) h b b2 m0 j S S' L ltac:(lia) E4). lia.
Qed.

Lemma tracked_in_pays : forall st st' c h s taken f, tracked_in st c h s taken -> 0 <= h ->
  shares_ok (shares st s) -> shares_ok (shares st' s) -> (forall m, shares st s m <= shares st' s m) ->
  marks st' s = marks st s -> last_of (now st) s < last_of (now st') s -> last_of c s < last_of (now st') s ->
  (forall x, In x (marks st s) -> x <= last_of (now st) s) ->
  0 <= f <= shares st' s (class_of (now st) s 0) ->
  class_of (now st') s 0 = Z.min (payments (now st) s 0 + 1) (top cfg) ->
  tracked_in st' c h s (taken + parts (h - taken) f).
Proof.
  intros st st' c h s taken f (m0 & j & b & a & n & W & A & M & J & C & T) H S S' L E La Lc R F Cl.
  destruct (walk_mono cfg (shares st s) (shares st' s) h (class_of c s 0) (marks st s)
    (slots_between (last_of c s + 1) (last_of (now st) s)) 0 0 (mem (last_of c s + 1 - 1) (marks st s)) O S S' L
    ltac:(lia) H) as (b1 & b2 & d & n' & E1 & E2 & E3 & E4).
  unfold walk in W. rewrite E1 in W. injection W as -> -> ->.
  pose proof (walk_more cfg (shares st' s) h (class_of c s 0) (last_of c s + 1) _ _ _ _ _ _ (Z.lt_le_incl _ _ La) R E2) as W'.
  set (more := length (slots_between (Z.max (last_of c s + 1) (last_of (now st) s + 1)) (last_of (now st') s))) in *.
  assert (0 < more)%nat.
  { unfold more, slots_between.
    assert (Le : forall n x, length (zrange x n) = n) by (induction n0; intros; cbn; auto). rewrite Le. lia. }
  exists m0, (Datatypes.S j), b2, a, (n + more)%nat. rewrite E. split; [exact W'|].
  repeat split; auto; try lia.
  - rewrite Cl. unfold Ledger.class_of in C. lia.
  - cbn [pays]. rewrite <- C.
    pose proof (pays_mono cfg (shares st s) (shares st' s) h b b2 m0 j S S' L ltac:(lia) E4).
    apply taken_mono; [lia|lia|lia|apply S'].
Qed.

(** A slot that is paid, of either kind. *)
Lemma paying_stays_bounded : forall b st' s t d f M' pa, period cfg = 0 -> invariant (of b) -> bounded b ->
  in_turn cfg (now (of b)) s t = true -> 0 <= d ->
  (exists x, paid st' = (0, d, x) :: paid (of b)) -> copies st' = copies (of b) ->
  restored (seen st') = restored (seen (of b)) -> (forall x, get 0 x (billed (seen (of b))) <= get 0 x (billed (seen st'))) ->
  (forall x, shares_ok (shares st' x)) -> (forall x m, shares (of b) x m <= shares st' x m) ->
  slots (now st') = set s t (slots (now (of b))) -> levies (now st') = levies (now (of b)) ->
  assigned (now st') = assigned (now (of b)) ->
  (forall x, x <> s \/ by_class cfg s = false \/ d = 0 -> class_of (now st') x 0 = class_of (now (of b)) x 0) ->
  (forall x, x <> s -> said M' x = said (most b) x) ->
  (if by_class cfg s then
     (0 < d -> class_of (now st') s 0 = Z.min (payments (now (of b)) s 0 + 1) (top cfg)) /\
     bounds_ok (base_of b s) (said M' s) /\ (forall m, get 0 m (said (most b) s) <= get 0 m (said M' s)) /\
     (forall m, has m (said (most b) s) = true -> has m (said M' s) = true) /\
     0 <= f <= shares st' s (class_of (now (of b)) s 0) /\ d <= parts (base_of b s - paid_by (paid_in b) s) f /\
     (0 < d -> has (class_of (now st') s 0) (said M' s) = true /\
               paid_by (paid_in b) s + d <= get 0 (class_of (now st') s 0) (said M' s))
   else said M' s = said (most b) s /\ paid_by (paid_in b) s + d <= get 0 s (billed (seen st'))) ->
  bounded {| of := st'; since := first_of b s t; base := based b s; most := M'; most_then := most_then b; past := pa; past_then := past_then b; paid_in := more s d (paid_in b); paid_then := paid_then b |}.
Proof.
  intros b st' s t d f M' pa P I B T D [x0 Pd] Ec Er Bi S' L Es El Ea Cl Other Pay.
  destruct B as [Bl Bb Bg [Gn Go Gc Gp Gg (part & Gl1 & Gl2)] Bs Bc].
  destruct (in_turn_spec _ _ _ _ T) as [T1 _].
  set (b' := {| of := st'; since := first_of b s t; base := based b s; most := M'; most_then := most_then b; past := pa; past_then := past_then b; paid_in := more s d (paid_in b); paid_then := paid_then b |}).
  assert (Eh : held (now st') = held (now (of b))) by (unfold Ledger.held; now rewrite Ea).
  assert (Ebase : forall x, base_of b' x = base_of b x).
  { intros x. unfold base_of at 1. cbn [of base b']. unfold based. rewrite Eh, get_set. destruct (Z.eqb_spec s x); [now subst|reflexivity]. }
  assert (Has : forall x, has x (slots (now st')) = (s =? x) || has x (slots (now (of b)))) by (intros; rewrite Es; apply has_set).
  assert (Paid : forall x, paid_by (more s d (paid_in b)) x = if s =? x then paid_by (paid_in b) s + d else paid_by (paid_in b) x)
    by (intros x; unfold paid_by at 1, more; apply get_set).
  assert (Last : forall x, last_of (now st') x = if s =? x then t else last_of (now (of b)) x)
    by (intros; unfold last_of; rewrite Es; apply get_set).
  assert (Ok0 : forall x, bounds_ok (base_of b x) (said (most b) x)).
  { intros x. destruct (has x (slots (now (of b)))) eqn:H; [now apply Go|]. destruct (Gn x H) as (_ & -> & _).
    apply newcomers_ok. pose proof (Bb x). pose proof (i_held cfg _ I). unfold Ledger.held in *. lia. }
  assert (SaidLe : forall x m, get 0 m (said (most b) x) <= get 0 m (said M' x)).
  { intros x m. destruct (Z.eq_dec x s) as [->|N]; [|rewrite Other by assumption; lia].
    destruct (by_class cfg s); [apply (proj1 (proj2 (proj2 Pay)))|destruct Pay as [-> _]; lia]. }
  assert (Sum : forall g : Z -> Z, (has s (slots (now (of b))) = false -> g s = 0) ->
            sum (map g (streams (now st'))) = sum (map g (streams (now (of b))))) by (intros g G; unfold streams; rewrite Es; now apply sum_set).
  constructor; cbn [of since base most most_then past past_then paid_in paid_then b'].
  - now rewrite Ec.
  - intros x. rewrite Ebase, Eh. apply Bb.
  - intros x X. unfold based. rewrite has_set. rewrite Has in X. apply orb_true_iff in X as [X|X]; [now rewrite X|].
    rewrite (Bg x X). apply orb_true_r.
  - constructor.
    + intros x X. rewrite Has in X. apply orb_false_iff in X as [X1 X2]. apply Z.eqb_neq in X1.
      destruct (Gn x X2) as (N1 & N2 & N3). rewrite Cl by (left; congruence). rewrite Other by congruence.
      rewrite Paid. destruct (Z.eqb_spec s x); [contradiction|]. auto.
    + intros x _. rewrite Ebase. destruct (Z.eq_dec x s) as [->|N]; [|rewrite Other by assumption; apply Ok0].
      destruct (by_class cfg s); [apply Pay|]. destruct Pay as [-> _]. apply Ok0.
    + intros x X. rewrite Paid. destruct (Z.eqb_spec s x) as [<-|N].
      * rewrite X in Pay. destruct Pay as (Pay1 & Pay2 & Pay3 & Pay4 & Pay5 & Pay6 & Pay7).
        destruct (Z.eq_dec d 0) as [Dz|Dz]; [|apply Pay7; lia]. rewrite Cl by auto. destruct (Gc s X) as [G1 G2].
        split; [now apply Pay4|]. specialize (Pay3 (class_of (now (of b)) s 0)). lia.
      * rewrite Cl by (left; congruence). rewrite Other by congruence. now apply Gc.
    + intros x X. rewrite Paid. destruct (Z.eqb_spec s x) as [<-|N]; [rewrite X in Pay; apply Pay|].
      specialize (Gp x X). specialize (Bi x). lia.
    + intros x. rewrite Paid. pose proof (Gg x). pose proof (Gg s). destruct (s =? x); lia.
    + exists part. rewrite El, Gl1. split; [symmetry; apply Sum; intros H; apply (Gl2 s), H|].
      intros x. destruct (Gl2 x) as (P1 & P2 & P3). split; [assumption|]. split.
      * intros X. apply P2. rewrite Has in X. now apply orb_false_iff in X.
      * specialize (Bi x). pose proof (SaidLe x 0). destruct (by_class cfg x); lia.
  - rewrite Pd. change (debits 0 ((0, d, x0) :: paid (of b))) with (d + debits 0 (paid (of b))). rewrite Bs.
    assert (Nd : NoDup (streams (now st'))).
    { unfold streams. rewrite Es, keys_set. destruct (has s (slots (now (of b)))) eqn:H; [apply (i_streams cfg _ I)|].
      apply (Permutation_NoDup (Permutation_cons_append (map fst (slots (now (of b)))) s)). constructor; [|apply (i_streams cfg _ I)].
      intros X. apply has_in in X. congruence. }
    assert (Is : In s (streams (now st'))) by (apply in_streams; rewrite Has, Z.eqb_refl; reflexivity).
    rewrite <- (Sum (paid_by (paid_in b))) by (intros H; apply (Gn s H)).
    rewrite (map_ext (paid_by (more s d (paid_in b))) (fun x => if x =? s then paid_by (paid_in b) s + d else paid_by (paid_in b) x))
      by (intros x; rewrite Paid, (Z.eqb_sym s x); reflexivity).
    rewrite sum_update by assumption. lia.
  - intros n c bt Nth. rewrite Ec in Nth. destruct (Bc n c bt Nth) as [[Cn Co Cc Cp Cg (part' & Cl1 & Cl2)] Ct].
    pose proof (i_copies cfg _ I _ (nth_error_In _ _ Nth)) as (C1 & C2 & C3 & C4 & Cs & C5 & C6).
    assert (Hc : has s (slots (now (of b))) = false -> has s (slots c) = false).
    { intros H. destruct (has s (slots c)) eqn:E; [|reflexivity]. apply C4, in_streams in E. congruence. }
    split.
    + constructor; auto.
      * intros x X. rewrite Ebase. now apply Co.
      * exists part'. split; [|assumption]. rewrite Cl1. symmetry. apply Sum. intros H. apply (Cl2 s), Hc, H.
    + intros Cov x X Xc.
      assert (Cov0 : forall y, In y (streams (now (of b))) -> has y (slots c) = true).
      { intros y Y. apply Cov, in_streams. rewrite Has. apply in_streams in Y. rewrite Y. apply orb_true_r. }
      assert (Ix : In x (streams (now (of b)))) by (apply C4, Cov, X).
      specialize (Ct Cov0 x Ix Xc). rewrite Ebase, Paid. destruct (C6 Cov0) as [C7 _].
      assert (Mk : forall z, In z (marks (of b) x) -> z <= last_of (now (of b)) x) by (intros z Z; apply (i_marks cfg _ I x z Z)).
      assert (Em : marks st' x = marks (of b) x) by (unfold marks; now rewrite Er).
      destruct (Cc x Xc) as [_ Cx]. destruct (Co x (Cov0 x Ix)) as (_ & Cr & _). specialize (Cr (class_of c x 0)).
      destruct (Z.eqb_spec s x) as [<-|N].
      * rewrite Xc in Pay. destruct Pay as (Pay1 & Pay2 & Pay3 & Pay4 & Pay5 & Pay6 & Pay7). specialize (T1 Ix). specialize (C7 s Ix).
        destruct (Z.eq_dec d 0) as [Dz|Dz].
        -- replace (paid_by (paid_in b) s + d) with (paid_by (paid_in b) s) by lia.
           apply (tracked_in_grows (of b) st'); auto; try apply (i_shares cfg _ I); try lia; try apply L.
           rewrite Last, Z.eqb_refl. lia.
        -- set (h := base_of b s - paid_by (nth n (paid_then b) []) s) in *.
           set (taken := paid_by (paid_in b) s - paid_by (nth n (paid_then b) []) s) in *.
           assert (W : tracked_in st' c h s (taken + parts (h - taken) f)).
           { apply (tracked_in_pays (of b) st'); auto; try apply (i_shares cfg _ I); try lia; try apply L;
               try (rewrite Last, Z.eqb_refl; lia); try (apply Pay1; lia). }
           destruct W as (m0 & j & bb & a & nn & W1 & W2 & W3 & W4 & W5 & W6). exists m0, j, bb, a, nn. repeat split; auto; try lia.
           replace (h - taken) with (base_of b s - paid_by (paid_in b) s) in W6 by (unfold h, taken; lia). unfold taken in W6. lia.
      * apply (tracked_in_grows (of b) st'); auto; try apply (i_shares cfg _ I); try lia; try apply L.
        rewrite Last. destruct (Z.eqb_spec s x); [contradiction|lia].
Qed.

Lemma said_set : forall s l M x, said (set s l M) x = if s =? x then l else said M x.
Proof. intros. apply get_set. Qed.

Lemma policy_stays : forall b s t e num den whole here b' out, period cfg = 0 -> invariant (of b) -> bounded b ->
  book_step b (PayPolicy s t e num den whole here) = Some (b', out) -> bounded b'.
Proof.
  intros b s t e num den whole here b' out P I B E. unfold book_step in E. cbn [allowed negb] in E.
  destruct (step cfg (of b) (PayPolicy s t e num den whole here)) as [[st' [g d]]|] eqn:Q; [|discriminate]. injection E as <- _.
  pose proof GRAINS_pos as Gp. cbn [step] in Q.
  destruct (in_turn cfg (now (of b)) s t && negb (by_class cfg s) && (0 <=? e) && (0 <? num) && (num <=? den) && (den <=? SHARE_STEPS)) eqn:G;
    [|discriminate].
  rewrite !andb_true_iff in G. destruct G as [[[[[T C] E0] _] _] _]. apply negb_true_iff in C. apply Z.leb_le in E0.
  set (gr := if here then weight (whole_or_none whole (weights_by_policy cfg (now (of b)) (epoch_of cfg t) e num den)) else 0) in *.
  assert (W : 0 <= gr <= GRAINS) by (unfold gr; destruct here; [apply weight_range|lia]).
  destruct (settle_spec _ _ _ _ _ _ _ _ _ P I T E0 (proj1 W) Q) as (Ed & _ & D & Pd & Se & Ec & Es & El & Ea & Cl & _).
  assert (De : d <= e) by (rewrite Ed; apply debit_le; apply Z.mul_le_mono_nonneg_l; lia).
  apply (paying_stays_bounded b st' s t d 0 (most b) (past b) P I B T D Pd Ec); auto; try (rewrite Se); try reflexivity.
  - intros x. cbn [billed]. rewrite get_set. destruct (Z.eqb_spec s x); subst; lia.
  - intros x. unfold shares. rewrite Se. apply (i_shares cfg _ I).
  - intros x m. unfold shares. rewrite Se. apply Z.le_refl.
  - rewrite C. split; [reflexivity|]. cbn [billed]. rewrite get_set, Z.eqb_refl. pose proof (g_policy _ _ _ _ _ _ (b_now b B) s C). lia.
Qed.

Lemma class_stays : forall b s t groups whole here b' out, period cfg = 0 -> invariant (of b) -> bounded b ->
  book_step b (PayClass s t groups whole here) = Some (b', out) -> bounded b'.
Proof.
  intros b s t groups whole here b' out P I B E. unfold book_step in E. cbn [allowed negb] in E.
  destruct (step cfg (of b) (PayClass s t groups whole here)) as [[st' [g d]]|] eqn:Q; [|discriminate]. injection E as <- _.
  pose proof GRAINS_pos as Gp. pose proof (epoch_none cfg t P) as K. cbn [step] in Q.
  destruct (in_turn cfg (now (of b)) s t && by_class cfg s && well_asked cfg groups) eqn:G; [|discriminate].
  rewrite !andb_true_iff in G. destruct G as [[T C] Wa].
  destruct (weights_by_class cfg (now (of b)) s (epoch_of cfg t) groups) as [price gr0] eqn:W. rewrite K in W.
  set (m := class_of (now (of b)) s 0). set (f := snd (due m groups)).
  destruct (due_spec cfg groups m Wa) as [P0 Du]. fold f in Du.
  assert (Price : price = fst (due m groups))
    by (unfold weights_by_class in W; fold m in W; destruct (due m groups); now injection W).
  assert (Pr0 : 0 <= price) by lia.
  assert (Steps : forall c, In c (concat (map snd groups)) -> 0 < snd c <= SHARE_STEPS) by (intros c Ic; apply (well_asked_steps cfg groups c Wa Ic)).
  assert (F : 0 <= f <= SHARE_STEPS) by (pose proof STEPS_pos; destruct Du as [->|Du]; [lia|specialize (Steps _ Du); cbn in Steps; lia]).
  pose proof (left_nonneg cfg (now (of b)) 0) as Ln.
  pose proof (class_pays cfg (now (of b)) s 0 groups _ _ W ltac:(lia) F) as Cp. fold m f in Cp.
  pose proof (parts_le _ f Ln F) as Pf.
  set (gr := if here then weight (whole_or_none whole gr0) else 0) in *.
  destruct (weight_le whole here gr0 (parts (left_at (now (of b)) 0) f * GRAINS) price ltac:(lia) ltac:(nia) ltac:(auto)) as [W1 W2].
  fold gr in W1, W2. pose proof (debit_le price gr _ W2) as Dl.
  destruct (settle_spec _ _ _ _ _ _ _ _ _ P I T Pr0 (proj1 W1) Q) as (Ed & _ & D & Pd & Se & Ec & Es & El & Ea & Cl & Cn).
  specialize (Cn C). rewrite <- Ed in Dl.
  pose proof (b_base b B s) as Bb. pose proof (i_held cfg _ I) as Hh.
  assert (Ok0 : bounds_ok (base_of b s) (said (most b) s)).
  { destruct (has s (slots (now (of b)))) eqn:H; [now apply (g_ok _ _ _ _ _ _ (b_now b B))|].
    destruct (g_new _ _ _ _ _ _ (b_now b B) s H) as (_ & -> & _). apply newcomers_ok. unfold Ledger.held in *. lia. }
  destruct (g_class _ _ _ _ _ _ (b_now b B) s C) as [Gh Gx]. fold m in Gh, Gx.
  destruct (draw_grows (base_of b s) (said (most b) s) groups Ok0) as (D1 & D2 & D3 & D4).
  { intros c Ic. specialize (Steps c Ic). lia. }
  destruct (i_now cfg _ I 0 (reached_none _ P)) as [_ Left].
  assert (Sx : paid_by (paid_in b) s <= debits 0 (paid (of b))).
  { rewrite (b_sum b B). destruct (has s (slots (now (of b)))) eqn:H.
    - apply sum_ge; [now apply in_streams|]. intros x _. apply (g_nonneg _ _ _ _ _ _ (b_now b B)).
    - destruct (g_new _ _ _ _ _ _ (b_now b B) s H) as (_ & _ & ->). apply sum_nonneg. intros x X. apply in_map_iff in X as [y [<- _]].
      apply (g_nonneg _ _ _ _ _ _ (b_now b B)). }
  assert (Df : d <= parts (base_of b s - paid_by (paid_in b) s) f).
  { etransitivity; [exact Dl|]. apply parts_mono; lia. }
  assert (Ent : entered b s t = said (most b) s) by (unfold entered, epoch_now; rewrite !epoch_none by assumption; reflexivity).
  rewrite Ent.
  apply (paying_stays_bounded b st' s t d f (set s (draw (base_of b s) (said (most b) s) groups) (most b)) (past_at b s t) P I B T D Pd Ec);
    auto; try (rewrite Se); try reflexivity; try (intros; cbn [billed]; lia).
  - intros x m'. unfold shares, share_of. rewrite Se. cbn [largest]. rewrite get_set. destruct (Z.eqb_spec s x).
    + subst. apply asks_range; [intros y Y; specialize (Steps y Y); lia|]. apply (i_shares _ _ I).
    + apply (i_shares _ _ I).
  - intros x m'. unfold shares, share_of. rewrite Se. cbn [largest]. rewrite get_set. destruct (Z.eqb_spec s x); [|lia].
    subst. apply (proj1 (asks_ge _ m' (fun y Y => Z.lt_le_incl _ _ (proj1 (Steps y Y))) _)).
  - intros x N. rewrite said_set. destruct (Z.eqb_spec s x); [congruence|reflexivity].
  - rewrite C, said_set, Z.eqb_refl. split; [exact Cn|]. split; [exact D1|]. split; [exact D2|]. split; [exact D3|]. split; [|split; [exact Df|]].
    + split; [lia|]. fold m. unfold shares, share_of. rewrite Se. cbn [largest]. rewrite get_set, Z.eqb_refl.
      destruct Du as [->|Du]; [|apply (proj2 (asks_ge _ m (fun y Y => Z.lt_le_incl _ _ (proj1 (Steps y Y))) _)), Du].
      apply asks_range; [intros y Y; specialize (Steps y Y); lia|]. apply (i_shares _ _ I).
    + intros Dp. destruct Du as [Fz|Du].
      { rewrite Fz in Df. unfold parts in Df. rewrite Z.mul_0_r, Z.div_0_l in Df by (pose proof STEPS_pos; lia). lia. }
      destruct (D4 m f Du Gh) as [D5 D6].
      assert (En : class_of (now st') s 0 = next m).
      { rewrite (Cn Dp). unfold next, m, Ledger.class_of. lia. }
      rewrite En. split; [exact D5|]. pose proof (rest_mono (base_of b s - get 0 m (said (most b) s)) (base_of b s - paid_by (paid_in b) s) f
        ltac:(lia) F). lia.
Qed.

Lemma opened_bounded : forall n, 0 <= n <= epsilon cfg -> bounded (opened n).
Proof.
  intros n N. constructor; cbn [of since base most most_then past past_then paid_in paid_then opened].
  - split; reflexivity.
  - intros s. apply Z.le_refl.
  - intros s H. discriminate.
  - constructor.
    + intros s _. split; [|split; reflexivity]. unfold Ledger.class_of, payments. cbn. lia.
    + intros s H. discriminate.
    + intros s _. cbn. unfold Ledger.class_of, payments. cbn. rewrite Z.min_l by lia. cbn. split; [reflexivity|lia].
    + intros s _. cbn. lia.
    + intros s. cbn. lia.
    + exists (fun _ => 0). split; [reflexivity|]. intros s. split; [lia|]. split; [reflexivity|]. cbn. destruct (by_class cfg s); cbn; lia.
  - reflexivity.
  - intros [|k] c bt H; discriminate.
Qed.

Lemma copy_stays : forall b b' out, period cfg = 0 -> invariant (of b) -> bounded b ->
  book_step b Copy = Some (b', out) -> bounded b'.
Proof.
  intros b b' out P I B E. unfold book_step in E. cbn in E. injection E as <- _.
  destruct B as [[Bl1 Bl2] Bb Bg Bn Bs Bc].
  constructor; cbn [of now seen copies paid since base most most_then past past_then paid_in paid_then].
  - cbn [length]. auto.
  - exact Bb.
  - exact Bg.
  - exact Bn.
  - exact Bs.
  - intros [|n] c bt Nth; cbn [nth_error nth] in *; [|exact (Bc n c bt Nth)]. injection Nth as <- <-. split; [exact Bn|].
    intros _ s S C. pose proof (g_class _ _ _ _ _ _ Bn s C) as [_ Gx]. destruct (g_ok _ _ _ _ _ _ Bn s ltac:(now apply in_streams)) as (_ & Gr & _).
    specialize (Gr (class_of (now (of b)) s 0)). change (base_of _ s) with (base_of b s).
    destruct (walk_range cfg (shares (of b) s) (base_of b s - paid_by (paid_in b) s) (class_of (now (of b)) s 0)
      (last_of (now (of b)) s + 1) (last_of (now (of b)) s) (marks (of b) s) (i_shares cfg _ I s) ltac:(lia)) as (bb & a & n & W & R).
    destruct (i_now cfg _ I 0 (reached_none _ P)) as [A _]. pose proof (class_range cfg top_range (now (of b)) s 0 0 A).
    exists (class_of (now (of b)) s 0), O, bb, a, n. split; [exact W|]. cbn [now pays Z.of_nat]. repeat split; lia.
Qed.

Lemma base_after : forall l d s, get d s (map (fun x : Z * Z => (fst x, Z.max (snd x) d)) l) = if has s l then Z.max (get d s l) d else d.
Proof.
  induction l as [|[x v] l IH]; intros d s; cbn; [reflexivity|]. destruct (Z.eqb_spec x s); cbn; [reflexivity|apply IH].
Qed.

Lemma get_default : forall (A : Type) (l : list (Z * A)) d d' s, has s l = true -> get d s l = get d' s l.
Proof. induction l as [|[x v] l IH]; intros d d' s H; [discriminate|]. cbn in *. destruct (x =? s); [reflexivity|now apply IH]. Qed.

Lemma assign_stays : forall b units bound b' out, period cfg = 0 -> invariant (of b) -> bounded b ->
  book_step b (Assign units bound) = Some (b', out) -> bounded b'.
Proof.
  intros b units bound b' out P I B E. unfold book_step in E.
  destruct (negb (allowed b (Assign units bound))); [discriminate|]. cbn [step] in E.
  destruct ((0 <=? units) && (units <=? epsilon cfg) && (period cfg =? 0) && (units - assigned (now (of b)) <=? assignable (held (now (of b))) bound)) eqn:G;
    [|discriminate]. injection E as <- _.
  destruct B as [_ Bb Bg [Gn Go Gc Gp Gg Gl] Bs Bc].
  set (h := held {| table := table (now (of b)); own := own (now (of b)); slots := slots (now (of b)); levies := levies (now (of b)); assigned := units |}).
  match goal with |- bounded ?x => set (b' := x) end.
  assert (Eb : forall s, has s (slots (now (of b))) = true -> base_of b s <= base_of b' s).
  { intros s S. unfold base_of. cbn [of now base b']. fold h. rewrite base_after, (Bg s S).
    rewrite (get_default _ _ h (held (now (of b))) s (Bg s S)). lia. }
  constructor; cbn [of now seen copies paid since base most most_then past past_then paid_in paid_then b'].
  - split; reflexivity.
  - intros s. unfold base_of. cbn [of now base b']. fold h. rewrite base_after. destruct (has s (base b)); lia.
  - intros s S. specialize (Bg s S). fold h. clear -Bg. induction (base b) as [|[x v] l IH]; [discriminate|]. cbn in *.
    destruct (x =? s); [reflexivity|]. now apply IH.
  - constructor; auto. intros s S. destruct (Go s S) as (O1 & O2 & O3). pose proof (Eb s S). cbn [slots] in S.
    split; [assumption|]. split; [intros m; specialize (O2 m); lia|intros c C; specialize (O3 c C); lia].
  - exact Bs.
  - intros [|n] c bt H; discriminate.
Qed.

Lemma get_keys : forall (A : Type) (f : Z -> A) (l : list Z) d s, get d s (map (fun x => (x, f x)) l) = if mem s l then f s else d.
Proof.
  induction l as [|x l IH]; intros d s; cbn; [reflexivity|]. rewrite (Z.eqb_sym s x). destruct (Z.eqb_spec x s); cbn; [now subst|apply IH].
Qed.

(** A sum that is at most that of some parts is one of smaller parts. *)
Lemma parts_of_a_sum : forall (l : list Z) (f : Z -> Z) x, NoDup l -> (forall s, 0 <= f s) -> 0 <= x <= sum (map f l) ->
  exists g : Z -> Z, sum (map g l) = x /\ forall s, 0 <= g s <= f s.
Proof.
  induction l as [|y l IH]; intros f x N P X.
  - cbn in X. exists (fun _ => 0). split; [cbn; lia|]. intros s. specialize (P s). lia.
  - inversion N as [|? ? N1 N2]; subst. cbn [map] in X. change (sum (f y :: map f l)) with (f y + sum (map f l)) in X.
    pose proof (P y). destruct (IH f (Z.max 0 (x - f y)) N2 P) as (g & G1 & G2).
    { assert (0 <= sum (map f l)) by (apply sum_nonneg; intros z Z; apply in_map_iff in Z as [s [<- _]]; apply P). lia. }
    exists (fun s => if s =? y then Z.min x (f y) else g s). split.
    + cbn [map]. rewrite Z.eqb_refl. change (sum (?a :: ?b)) with (a + sum b).
      rewrite (map_ext_in _ g); [lia|]. intros z Z. destruct (Z.eqb_spec z y); [subst; contradiction|reflexivity].
    + intros s. destruct (Z.eqb_spec s y); [subst; lia|apply G2].
Qed.

Lemma restore_stays : forall b number b' out, period cfg = 0 -> invariant (of b) -> bounded b ->
  book_step b (Restore number) = Some (b', out) -> bounded b'.
Proof.
  intros b number b' out P I B E. unfold book_step in E. cbn [allowed negb] in E.
  destruct (step cfg (of b) (Restore number)) as [[st' [g d]]|] eqn:Q; [|discriminate]. injection E as <- _. cbn [step] in Q.
  destruct (nth_error (copies (of b)) number) as [[c bt]|] eqn:Nth; [|discriminate].
  destruct (_ && _) eqn:G in Q; [|discriminate]. apply andb_true_iff in G as [G1 G2].
  assert (N : slots (now (of b)) <> []) by (destruct (slots (now (of b))); [discriminate|congruence]).
  assert (Cov : forall s, In s (streams (now (of b))) -> has s (slots c) = true) by (now rewrite forallb_forall in G1).
  destruct B as [Bl Bb Bg Bn Bs Bc].
  destruct (Bc number c bt Nth) as [Cg Ct]. specialize (Ct Cov).
  pose proof (nth_error_In _ _ Nth) as Inn.
  destruct (i_copies cfg _ I _ Inn) as (C1 & C2 & C3 & C4 & Cs & C5 & C6). destruct (C6 Cov) as (C7 & C8 & _).
  rewrite (nth_error_nth _ _ (now (of b), []) Nth). cbn [fst].
  set (Mc := nth number (most_then b) []) in *. set (Xc := nth number (paid_then b) []) in *.
  destruct (charge_lost_covers cfg epsilon_range period_range (of b) c bt (epoch_of cfg (newest (slots (now (of b))))) I Inn N Cov eq_refl)
    as (_ & Ok & _ & _ & Ea & Es & Eo).
  rewrite (epoch_none cfg _ P) in Ok.
  set (a := charge_lost cfg (of b) (c, bt)) in *. injection Q as <- _ _.
  set (sh := fun s => share_of (seen (of b)) s) in *.
  set (lost := fun s => after_lost (sh s) (base_of b s) (last_of c s + 1) (last_of (now (of b)) s) (get [] s (restored (seen (of b)))) (said Mc s)) in *.
  assert (Lb : forall s, lost_bounds b c Mc s = lost s).
  { intros s. unfold lost_bounds, lost, epoch_now, first_lost. rewrite !epoch_none, P by assumption. reflexivity. }
  match goal with |- bounded ?x => set (b' := x) end.
  assert (Str : streams a = streams (now (of b))) by (unfold streams; now rewrite Es).
  assert (Eb : forall s, base_of b' s = base_of b s) by (intros; unfold base_of, b'; cbn [of now base]; unfold Ledger.held; now rewrite Ea).
  assert (Cl : forall s, class_of a s 0 = class_of c s 0) by (intros; unfold Ledger.class_of, payments; now rewrite Eo).
  assert (Same : forall s, has s (slots c) = has s (slots (now (of b)))).
  { intros s. apply eq_true_iff_eq. split; [intros H; apply in_streams, C4, H|intros H; apply Cov, in_streams, H]. }
  assert (Said : forall s, said (most b') s = if mem s (streams (now (of b))) then lost s else newcomers)
    by (intros; unfold said, b'; cbn [most]; rewrite get_keys, Lb; reflexivity).
  assert (Mem : forall s, mem s (streams (now (of b))) = has s (slots (now (of b)))).
  { intros s. apply eq_true_iff_eq. rewrite mem_in. apply in_streams. }
  assert (So : forall s, shares_ok (sh s)) by (intros; apply (i_shares cfg _ I s)).
  assert (Held : held c = held (now (of b))) by (unfold Ledger.held; now rewrite C1).
  pose proof (i_held cfg _ I) as Hh.
  destruct Cg as [Cn Co Cc Cp Cq (part & Cl1 & Cl2)].
  assert (Lost : forall s, has s (slots (now (of b))) = true -> bounds_ok (base_of b s) (lost s) /\
            (forall m, has m (said Mc s) = true -> has m (lost s) = true) /\
            forall m, has m (said Mc s) = true -> get 0 m (said Mc s) +
              most_taken cfg (fun j => raised (sh s j)) (base_of b s - get 0 m (said Mc s)) m (last_of c s + 1) (last_of (now (of b)) s)
                         (get [] s (restored (seen (of b)))) <= get 0 m (lost s)).
  { intros s S. apply after_lost_ok; [apply So|]. apply Co. now rewrite Same. }
  constructor; cbn [of now seen copies paid since base most most_then past past_then paid_in paid_then b'].
  - exact Bl.
  - intros s. fold b'. rewrite Eb. unfold Ledger.held. rewrite Ea. apply Bb.
  - intros s. rewrite Es. apply Bg.
  - fold b'. change (map (fun s => (s, _)) (streams (now (of b)))) with (most b'). rewrite Str. constructor.
    + intros s S. rewrite Es in S. rewrite Said, Mem, S, Cl. split; [apply (Cn s); now rewrite Same|]. split; [reflexivity|].
      apply (g_new _ _ _ _ _ _ Bn s S).
    + intros s S. rewrite Es in S. rewrite Said, Mem, S, Eb. apply Lost, S.
    + intros s C. rewrite Said, Mem, Cl. destruct (has s (slots (now (of b)))) eqn:S.
      2:{ destruct (Cn s ltac:(now rewrite Same)) as (-> & _ & _). destruct (g_new _ _ _ _ _ _ Bn s S) as (_ & _ & ->). cbn. split; [reflexivity|lia]. }
      destruct (Lost s S) as (L1 & L2 & L3). destruct (Cc s C) as [Ch Cx]. split; [now apply L2|]. specialize (L3 _ Ch).
      destruct (Ct s ltac:(now apply in_streams) C) as (m0 & j & bb & an & n & W & A & M & J & _ & T).
      set (X := paid_by Xc s) in *. set (S0 := get 0 (class_of c s 0) (said Mc s)) in *. set (Ee := base_of b s) in *.
      destruct (Co s ltac:(now rewrite Same)) as (_ & Cr & _). specialize (Cr (class_of c s 0)). fold S0 Ee in Cr.
      pose proof (most_taken_covers cfg (shares (of b) s) (Ee - X) (class_of c s 0) (last_of c s + 1) (last_of (now (of b)) s) (marks (of b) s)
        bb an n m0 j (i_shares cfg _ I s) ltac:(lia) W A M J) as Mt.
      destruct (raised_ok (sh s) (So s)) as [S' _].
      destruct (taken_ahead (fun m => raised (sh s m)) (Ee - S0) (Ee - X) (class_of c s 0) (last_of c s + 1) (last_of (now (of b)) s)
        (marks (of b) s) S' ltac:(lia)) as [[_ Ah] _].
      unfold marks, shares, sh in *. lia.
    + intros s C. exact (g_policy _ _ _ _ _ _ Bn s C).
    + intros s. apply (g_nonneg _ _ _ _ _ _ Bn).
    + assert (Nd : NoDup (streams (now (of b)))) by apply (i_streams cfg _ I).
      assert (Pn : forall s, 0 <= part s) by (intros s; apply (Cl2 s)).
      assert (Ln : 0 <= levied 0 (levies c)) by (apply levied_nonneg, C2).
      set (av := available_at cfg c 0).
      assert (Av : 0 <= av) by (unfold av, available_at, available; lia).
      assert (Room : forall s, In s (streams (now (of b))) -> part s <= levied 0 (levies c))
        by (intros s S; rewrite Cl1; apply sum_ge; [assumption|intros x _; apply Pn]).
      (* what a newcomer is charged more is at most what the bound of class 0 grows by *)
      assert (Grow : forall s x, In s (streams (now (of b))) -> 0 <= x <= lost_of cfg (of b) (c, bt) 0 av 0 s ->
                part s + x <= if by_class cfg s then get 0 0 (lost s) else get 0 s (billed (seen (of b)))).
      { intros s x S X. destruct (Cl2 s) as (_ & _ & P3). unfold lost_of in X. destruct (by_class cfg s) eqn:C; [|specialize (C8 s); lia].
        assert (Hs : has s (slots (now (of b))) = true) by now apply in_streams.
        destruct (Lost s Hs) as (L1 & L2 & L3). destruct (Co s ltac:(now rewrite Same)) as (Ch & Cr & _). specialize (L3 0 Ch).
        specialize (Cr 0). set (S0 := get 0 0 (said Mc s)) in *. destruct (raised_ok (sh s) (So s)) as [S' _].
        assert (Fl : first_lost cfg c s 0 = last_of c s + 1) by (unfold first_lost; rewrite P; reflexivity). rewrite Fl in X.
        set (fs := last_of c s + 1) in *. set (ls := last_of (now (of b)) s) in *. set (ms := get [] s (restored (seen (of b)))) in *.
        specialize (Room s S). specialize (Bb s). set (Ee := base_of b s) in *.
        destruct (taken_ahead (fun j => raised (sh s j)) (Ee - S0) (Ee - part s) 0 fs ls ms S' ltac:(lia)) as [[_ A1] [A2 A3]].
        assert (Avs : av <= Ee - part s) by (unfold av, available_at, available in *; lia).
        destruct (taken_ahead (fun j => raised (sh s j)) av (Ee - part s) 0 fs ls ms S' ltac:(lia)) as [[B1 _] [B2 B3]].
        unfold sh in *. lia. }
      assert (Zero : forall s, has s (slots (now (of b))) = false -> part s = 0) by (intros s S; apply (Cl2 s); now rewrite Same).
      assert (Out : forall s, has s (slots (now (of b))) = false -> 0 <= (if by_class cfg s then get 0 0 newcomers else get 0 s (billed (seen (of b))))).
      { intros s S. destruct (by_class cfg s) eqn:C; [cbn; lia|].
        pose proof (g_policy _ _ _ _ _ _ Bn s C). pose proof (g_nonneg _ _ _ _ _ _ Bn s). lia. }
      assert (Levy : exists x : Z -> Z, levied 0 (levies a) = levied 0 (levies c) + sum (map x (streams (now (of b)))) /\
                forall s, In s (streams (now (of b))) -> 0 <= x s <= lost_of cfg (of b) (c, bt) 0 av 0 s \/
                  (by_class cfg s = false /\ x s = get 0 s (billed (seen (of b))) - get 0 s bt)).
      { unfold a, charge_lost. rewrite (epoch_none cfg _ P). fold av.
        destruct (existsb (by_class cfg) (streams (now (of b)))) eqn:By; cbv zeta; cbn [levies]; rewrite levied_app; cbn [fst snd].
        - set (l := fun s => lost_of cfg (of b) (c, bt) 0 av 0 s).
          assert (Lp : forall s, 0 <= l s) by (intros s; apply (lost_nonneg cfg); auto).
          assert (Sp : 0 <= sum (map l (streams (now (of b))))) by (apply sum_nonneg; intros z Z; apply in_map_iff in Z as [s [<- _]]; apply Lp).
          destruct (parts_of_a_sum _ l (Z.min (sum (map l (streams (now (of b))))) av) Nd Lp ltac:(lia)) as (x & X1 & X2).
          exists x. change (0 <=? 0) with true. split; [rewrite X1; reflexivity|]. intros s _. left. apply X2.
        - exists (fun s => get 0 s (billed (seen (of b))) - get 0 s bt). change (0 <=? 0) with true. split; [reflexivity|].
          intros s S. right. split; [|reflexivity]. apply not_true_iff_false. intros C. apply not_true_iff_false in By. apply By, existsb_exists. eauto. }
      destruct Levy as (x & X1 & X2).
      exists (fun s => if mem s (streams (now (of b))) then part s + x s else 0). split.
      * rewrite X1, Cl1. rewrite (map_ext_in (fun s => if mem s (streams (now (of b))) then part s + x s else 0) (fun s => part s + x s)).
        -- generalize (streams (now (of b))). intros l. induction l as [|y l IH]; [reflexivity|]. cbn [map].
           change (part y + sum (map part l) + (x y + sum (map x l)) = (part y + x y) + sum (map (fun s => part s + x s) l)). lia.
        -- intros s S. apply (mem_in s) in S. now rewrite S.
      * intros s. rewrite Said, Mem, Es. destruct (has s (slots (now (of b)))) eqn:S; [|split; [lia|split; [reflexivity|now apply Out]]].
        assert (Is : In s (streams (now (of b)))) by now apply in_streams. pose proof (Pn s).
        destruct (X2 s Is) as [X3|[X3 X4]].
        -- split; [lia|]. split; [discriminate|]. apply Grow; assumption.
        -- specialize (C8 s). split; [lia|]. split; [discriminate|]. rewrite X3, X4. destruct (Cl2 s) as (_ & _ & P3). rewrite X3 in P3.
           cbn [seen billed b' of]. lia.
  - rewrite Str. exact Bs.
  - intros n c2 bt2 Nth2. destruct (Bc n c2 bt2 Nth2) as [Dg Dt]. fold b'. rewrite Str. split.
    + destruct Dg. constructor; auto. intros s S. rewrite Eb. auto.
    + intros Cov2 s S C. specialize (Dt Cov2 s S C). rewrite Eb.
      destruct (i_copies cfg _ I _ (nth_error_In _ _ Nth2)) as (_ & _ & _ & _ & _ & _ & D6). destruct (D6 Cov2) as (D7 & _). specialize (D7 s S).
      set (h := base_of b s - paid_by (nth n (paid_then b) []) s) in *.
      assert (Hp : 0 <= h).
      { destruct (g_class _ _ _ _ _ _ Dg s C) as [_ Gx]. destruct (g_ok _ _ _ _ _ _ Dg s (Cov2 s S)) as (_ & Gr & _).
        specialize (Gr (class_of c2 s 0)). unfold h. lia. }
      destruct Dt as (m0 & j & bb & an & n0 & W & A & M & J & _ & T).
      destruct (restore_any_class cfg (shares (of b) s) h (class_of c2 s 0) (last_of c2 s + 1) (last_of (now (of b)) s)
        (marks (of b) s) bb an n0 (i_shares cfg _ I s) Hp ltac:(lia) W) as (b1 & W' & B').
      destruct (walk_range cfg (shares (of b) s) h (class_of c2 s 0) (last_of c2 s + 1) (last_of (now (of b)) s) (marks (of b) s)
        (i_shares cfg _ I s) Hp) as (b0 & a0 & n1 & W0 & R0). rewrite W in W0. injection W0 as <- <- <-.
      pose proof (finish_covers cfg (shares (of b) s) h (class_of c2 s 0) bb an n0 m0 j (i_shares cfg _ I s) ltac:(lia) A M J).
      unfold tracked_in. cbn [now b' of]. unfold marks. cbn [seen restored].
      rewrite (marks_after (last_of (now (of b)))) by apply (i_streams cfg _ I).
      assert (Ms : mem s (streams (now (of b))) = true) by (now apply mem_in). rewrite Ms.
      assert (La : last_of a s = last_of (now (of b)) s) by (unfold last_of; now rewrite Es). rewrite La.
      exists (class_of a s 0), O, b1, true, O. split; [exact W'|].
      pose proof (class_range cfg top_range a s 0 0 Ok). cbn [pays Z.of_nat]. repeat split; try lia; try discriminate.
Qed.

(** ** The theorems *)

(** A book is a trace of the ledger: that quotas are given of what no user has spent is proved, and no hypothesis. *)
Theorem bounds_hold : forall b, book_trace b -> trace cfg (of b) /\ (period cfg = 0 -> bounded b).
Proof.
  induction 1 as [n N|b x b' out _ [T B] E].
  - split; [now constructor|]. intros _. now apply opened_bounded.
  - assert (I : invariant (of b)) by (apply (trace_invariant cfg epsilon_range top_range period_range), T).
    split.
    + assert (E' := E). unfold book_step in E'. destruct (negb (allowed b x)) eqn:Al; [discriminate|]. apply negb_false_iff in Al.
      destruct (step cfg (of b) x) as [[st' [g d]]|] eqn:Q; [|discriminate].
      assert (H : honest (of b) x).
      { destruct x; cbn in Al |- *; auto. cbn [step] in Q. destruct (_ && _ && _ && _) eqn:G in Q; [|discriminate].
        rewrite !andb_true_iff in G. destruct G as [[_ G] _]. apply Z.eqb_eq in G. specialize (B G).
        apply orb_true_iff in Al as [Al|Al]; apply Z.leb_le in Al; [now left|right].
        destruct B as [_ _ _ [Gn Go Gc Gp Gg (part & Gl1 & Gl2)] Bs _].
        assert (St : forall s, In s (streams (now (of b))) -> paid_by (paid_in b) s <= stated b s /\ part s <= stated b s).
        { intros s S. unfold stated. destruct (Gl2 s) as (_ & _ & P3). destruct (by_class cfg s) eqn:C; [|specialize (Gp s C); lia].
          destruct (fold_max_ge (map snd (said (most b) s)) 0) as [F1 F2].
          assert (Any : forall m, has m (said (most b) s) = true -> get 0 m (said (most b) s) <= fold_right Z.max 0 (map snd (said (most b) s))).
          { intros m Hm. apply F2. apply get_in in Hm. apply (in_map snd) in Hm. exact Hm. }
          destruct (Gc s C) as [G1 G2]. specialize (Any _ G1) as A1.
          destruct (Go s ltac:(now apply in_streams)) as (G3 & _). specialize (Any _ G3) as A2. lia. }
        unfold stated_by_all in Al.
        pose proof (sum_le (streams (now (of b))) (paid_by (paid_in b)) (stated b) (fun s S => proj1 (St s S))).
        pose proof (sum_le (streams (now (of b))) part (stated b) (fun s S => proj2 (St s S))). lia. }
      destruct x; injection E' as <- _; cbn [of]; try exact (goes_on cfg _ _ _ _ T H Q). discriminate Al.
    + intros P. specialize (B P). destruct x.
      * eapply policy_stays; eauto.
      * eapply class_stays; eauto.
      * discriminate E.
      * eapply assign_stays; eauto.
      * eapply copy_stays; eauto.
      * eapply restore_stays; eauto.
Qed.

(** What u has paid in a stream, and what all u's payments are together, is at most what is stated. *)
Theorem stated_covers : forall b, book_trace b -> period cfg = 0 ->
  (forall s, paid_by (paid_in b) s <= stated b s) /\ debits 0 (paid (of b)) <= stated_by_all b.
Proof.
  intros b T P. destruct (bounds_hold b T) as [_ B]. specialize (B P). destruct B as [_ _ _ [Gn Go Gc Gp Gg _] Bs _].
  assert (St : forall s, paid_by (paid_in b) s <= stated b s).
  { intros s. unfold stated. destruct (by_class cfg s) eqn:C; [|now apply Gp]. destruct (Gc s C) as [G1 G2].
    destruct (fold_max_ge (map snd (said (most b) s)) 0) as [_ F2]. apply get_in in G1. apply (in_map snd) in G1. specialize (F2 _ G1).
    cbn [snd] in F2. lia. }
  split; [assumption|]. rewrite Bs. apply sum_le. auto.
Qed.

End Bounds.
