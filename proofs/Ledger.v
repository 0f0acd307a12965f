(** The ledger as a transition system over the whole numbers, and the theorem that every trace of it keeps to ε.

    Names and order are those of docs/privacy.md; functions have the names of src/dpi/budget. The state holds one user's
    account: nothing in it depends on another user. Budgets, shares, prices and groups of a slot are arguments of an
    action, so the theorems hold for every public strategy that chooses them. *)

From Coq Require Import ZArith List Bool Lia.
Import ListNotations.
Open Scope Z_scope.

Definition GRAINS : Z := 2 ^ 24.
Definition SHARE_STEPS : Z := 2 ^ 12.
Definition LARGEST : Z := 2 ^ 50.

(** * 2. Compression *)

(** A user of weight [w] with [r] rows, [rb] of them in a bin, adds this many grains to it. *)
Definition proportional (w rb r : Z) : Z := w * rb / r.
Definition sum (l : list Z) : Z := fold_right Z.add 0 l.

Lemma compression : forall w r rs, 0 <= w -> 0 < r -> (forall x, In x rs -> 0 <= x) -> sum rs <= r ->
  (forall x, In x (map (fun rb => proportional w rb r) rs) -> 0 <= x) /\
  sum (map (fun rb => proportional w rb r) rs) <= w.
Proof.
  intros w r rs Hw Hr Hrs Hsum. split.
  - intros x Hx. apply in_map_iff in Hx as [y [<- Hy]]. apply Z.div_pos; [|assumption].
    specialize (Hrs y Hy). nia.
  - assert (H : sum (map (fun rb => proportional w rb r) rs) * r <= w * sum rs).
    { clear Hsum. induction rs as [|y l IH]; cbn [map sum fold_right]; [lia|].
      fold (sum l) in *. fold (sum (map (fun rb => proportional w rb r) l)) in *.
      assert (proportional w y r * r <= w * y)
        by (unfold proportional; pose proof (Z.mul_div_le (w * y) r Hr); lia).
      assert (forall x, In x l -> 0 <= x) by (intros x Hx; apply Hrs; now right).
      specialize (IH H0). nia. }
    nia.
Qed.

(** * 3. Budgets: what an account can pay and what it is charged ([dpi.budget.billing]) *)

Definition available (epsilon levied : Z) : Z := Z.max 0 (epsilon - levied).
Definition left (held spent : Z) : Z := Z.max (held - spent) 0.
Definition part (remaining num den : Z) : Z := remaining * num / den.
Definition parts (remaining steps : Z) : Z := remaining * steps / SHARE_STEPS.
Definition affordable (policy limit epsilon : Z) : Z := Z.min policy (limit * GRAINS / epsilon).
Definition weight (grains : Z) : Z := Z.max 0 (Z.min grains GRAINS).
Definition debit (epsilon grains : Z) : Z := (epsilon * grains + (GRAINS - 1)) / GRAINS.
Definition unassigned (epsilon : Z) (quotas : list Z) : Z := epsilon - sum quotas.
Definition assignable (rest spent : Z) : Z := rest - Z.min rest spent.

Lemma GRAINS_pos : 0 < GRAINS. Proof. reflexivity. Qed.
Lemma STEPS_pos : 0 < SHARE_STEPS. Proof. reflexivity. Qed.
Global Opaque GRAINS SHARE_STEPS LARGEST.
#[local] Hint Resolve GRAINS_pos STEPS_pos : core.

Lemma part_le : forall r num den, 0 <= r -> 0 < num <= den -> 0 <= part r num den <= r.
Proof.
  intros. unfold part. split; [apply Z.div_pos; nia|]. apply Z.div_le_upper_bound; nia.
Qed.

Lemma parts_le : forall r f, 0 <= r -> 0 <= f <= SHARE_STEPS -> 0 <= parts r f <= r.
Proof.
  intros. pose proof STEPS_pos. unfold parts. split; [apply Z.div_pos; nia|]. apply Z.div_le_upper_bound; nia.
Qed.

Lemma parts_mono : forall r r' f f', 0 <= r <= r' -> 0 <= f <= f' -> parts r f <= parts r' f'.
Proof. intros. unfold parts. apply Z.div_le_mono; [auto|nia]. Qed.

(** What is left after a share was taken does not fall with what was left before. *)
Lemma rest_mono : forall r r' f, r <= r' -> 0 <= f <= SHARE_STEPS -> r - parts r f <= r' - parts r' f.
Proof.
  intros r r' f H Hf. unfold parts.
  assert (r' * f / SHARE_STEPS <= (r * f + (r' - r) * SHARE_STEPS) / SHARE_STEPS) by (apply Z.div_le_mono; [auto|nia]).
  rewrite Z.div_add in H0 by (pose proof STEPS_pos; lia). lia.
Qed.

(** s + floor(f · (left - s)) does not fall in s, and grows with f: what lost slots are charged by. *)
Lemma taken_mono : forall held s s' f f', s <= s' -> s' <= held -> 0 <= f <= f' -> f' <= SHARE_STEPS ->
  s + parts (held - s) f <= s' + parts (held - s') f' <= held.
Proof.
  intros. pose proof (rest_mono (held - s') (held - s) f ltac:(lia) ltac:(lia)).
  pose proof (parts_mono (held - s') (held - s') f f' ltac:(lia) ltac:(lia)).
  pose proof (parts_le (held - s') f' ltac:(lia) ltac:(lia)). lia.
Qed.

Lemma debit_le : forall e g limit, e * g <= limit * GRAINS -> debit e g <= limit.
Proof.
  intros. unfold debit. pose proof GRAINS_pos.
  transitivity ((GRAINS - 1 + limit * GRAINS) / GRAINS); [apply Z.div_le_mono; lia|].
  rewrite Z.div_add by lia. rewrite Z.div_small by lia. lia.
Qed.

Lemma debit_covers : forall e g, e * g <= debit e g * GRAINS.
Proof.
  intros. unfold debit. pose proof GRAINS_pos.
  pose proof (Z.mod_pos_bound (e * g + (GRAINS - 1)) GRAINS ltac:(lia)).
  pose proof (Z.div_mod (e * g + (GRAINS - 1)) GRAINS ltac:(lia)). lia.
Qed.

Lemma debit_nonneg : forall e g, 0 <= e -> 0 <= g -> 0 <= debit e g.
Proof. intros. pose proof (debit_covers e g). pose proof GRAINS_pos. nia. Qed.

Lemma affordable_pays : forall policy limit e, 0 < e -> e * affordable policy limit e <= limit * GRAINS.
Proof.
  intros. unfold affordable. pose proof (Z.mul_div_le (limit * GRAINS) e ltac:(lia)).
  pose proof (Z.le_min_r policy (limit * GRAINS / e)). nia.
Qed.

(** ** Accounts of one user *)

Section Maps.
  Context {A : Type}.
  Fixpoint get (d : A) (k : Z) (l : list (Z * A)) : A :=
    match l with [] => d | (x, a) :: l' => if x =? k then a else get d k l' end.
  Fixpoint set (k : Z) (a : A) (l : list (Z * A)) : list (Z * A) :=
    match l with [] => [(k, a)] | (x, b) :: l' => if x =? k then (k, a) :: l' else (x, b) :: set k a l' end.
  Fixpoint has (k : Z) (l : list (Z * A)) : bool :=
    match l with [] => false | (x, _) :: l' => (x =? k) || has k l' end.

  Lemma get_set : forall d k k' a l, get d k' (set k a l) = if k =? k' then a else get d k' l.
  Proof.
    induction l as [|[x b] l IH]; cbn.
    - destruct (k =? k'); reflexivity.
    - destruct (Z.eqb_spec x k); subst; cbn.
      + destruct (k =? k'); reflexivity.
      + rewrite IH. destruct (Z.eqb_spec x k'), (Z.eqb_spec k k'); subst; congruence.
  Qed.

  Lemma has_set : forall k k' a l, has k' (set k a l) = (k =? k') || has k' l.
  Proof.
    induction l as [|[x b] l IH]; cbn; [reflexivity|].
    destruct (Z.eqb_spec x k); subst; cbn.
    - destruct (k =? k'); reflexivity.
    - rewrite IH. destruct (x =? k'), (k =? k'); reflexivity.
  Qed.

  Lemma has_in : forall k l, has k l = true <-> In k (map fst l).
  Proof.
    induction l as [|[x b] l IH]; cbn; [intuition discriminate|].
    rewrite orb_true_iff, IH, Z.eqb_eq. tauto.
  Qed.

  Lemma keys_set : forall k a l,
    map fst (set k a l) = if has k l then map fst l else map fst l ++ [k].
  Proof.
    induction l as [|[x b] l IH]; cbn; [reflexivity|].
    destruct (Z.eqb_spec x k); subst; cbn; [reflexivity|]. rewrite IH. destruct (has k l); reflexivity.
  Qed.
End Maps.

Record standing := { spent : Z; active : Z; epoch : Z }.
Record accounts := {
  table : standing;                   (* the user's account *)
  own : list (Z * standing);          (* by stream that measures by class: spent, and in how many payments *)
  slots : list (Z * Z);               (* by stream: the last slot that was paid for *)
  levies : list (Z * Z);              (* epoch and units *)
  assigned : Z                        (* what is held back for quotas of others *)
}.
Record config := {
  epsilon : Z;
  top : Z;
  period : Z;                         (* 0: no refills *)
  policy : Z -> Z;                    (* grains by active slots: spend_first, fade *)
  by_class : Z -> bool                (* which streams measure by class *)
}.

Definition zero : standing := {| spent := 0; active := 0; epoch := 0 |}.
Definition open_accounts (n : Z) : accounts := {| table := zero; own := []; slots := []; levies := []; assigned := n |}.

Section Ledger.
Variable cfg : config.

Definition epoch_of (slot : Z) : Z := slot / period cfg.   (* x / 0 = 0 *)
Definition view (k : Z) (s : standing) : standing :=
  if epoch s <? k then {| spent := 0; active := 0; epoch := k |} else {| spent := spent s; active := active s; epoch := k |}.
Definition held (a : accounts) : Z := epsilon cfg - assigned a.
Definition levied (k : Z) (l : list (Z * Z)) : Z := sum (map snd (filter (fun x => k <=? fst x) l)).
Definition available_at (a : accounts) (k : Z) : Z := available (held a) (levied k (levies a)).
Definition left_at (a : accounts) (k : Z) : Z := left (available_at a k) (spent (view k (table a))).
Definition payments (a : accounts) (s k : Z) : Z := active (view k (get zero s (own a))).
Definition class_of (a : accounts) (s k : Z) : Z := Z.min (payments a s k) (top cfg).

(** ** Bills: what a slot makes of an account ([dpi.budget.charge]) *)

Definition group := (Z * list (Z * Z))%type.               (* the price E, and the classes with their steps *)

Definition weights_by_policy (a : accounts) (k e num den : Z) : Z :=
  if e =? 0 then 0
  else let grains := policy cfg (active (view k (table a))) in
       let limit := part (left_at a k) num den in
       if limit <? e then affordable grains limit e else grains.

Fixpoint due (m : Z) (groups : list group) : Z * Z :=       (* price and steps of a class; (1, 0) if it is not due *)
  match groups with
  | [] => (1, 0)
  | (price, classes) :: rest => if has m classes then (price, get 0 m classes) else due m rest
  end.

Definition weights_by_class (a : accounts) (s k : Z) (groups : list group) : Z * Z :=
  let (price, steps) := due (class_of a s k) groups in
  let limit := parts (left_at a k) steps in
  (price, if 0 <? limit then if limit <? price then affordable GRAINS limit price else GRAINS else 0).

Definition whole_or_none (whole : bool) (grains : Z) : Z := if whole && (grains <? GRAINS) then 0 else grains.

Definition after_payment (k cost : Z) (s : standing) : standing :=
  {| spent := spent (view k s) + cost; active := active (view k s) + 1; epoch := k |}.

(** ** Debits ([dpi.budget.accounts]): None is a refusal *)

Definition pay (a : accounts) (s t price grains : Z) : option (accounts * Z) :=
  let k := epoch_of t in
  let cost := debit price grains in
  let slots' := set s t (slots a) in
  if cost <=? 0 then
    Some ({| table := table a; own := own a; slots := slots'; levies := levies a; assigned := assigned a |}, 0)
  else if available_at a k <? spent (view k (table a)) + cost then None
  else Some ({| table := after_payment k cost (table a);
                own := if by_class cfg s then set s (after_payment k cost (get zero s (own a))) (own a) else own a;
                slots := slots'; levies := levies a; assigned := assigned a |}, cost).

(** ** Lost slots ([dpi.budget.classes.most_taken]) *)

Fixpoint zrange (first : Z) (n : nat) : list Z := match n with O => [] | S n' => first :: zrange (first + 1) n' end.
Definition slots_between (first last : Z) : list Z := zrange first (Z.to_nat (last + 1 - first)).
Definition mem (x : Z) (l : list Z) : bool := existsb (Z.eqb x) l.

(** What is taken of what an account held after [n] payments more, from class [m] on. *)
Fixpoint pays (shares : Z -> Z) (held taken m : Z) (n : nat) : Z :=
  match n with
  | O => taken
  | S n' => let s := pays shares held taken m n' in s + parts (held - s) (shares (Z.min (m + Z.of_nat n') (top cfg)))
  end.

Definition runs := (Z * bool * nat)%type.    (* taken before; whether any class comes first; slots in this run *)
Definition finish (shares : Z -> Z) (held own : Z) (r : runs) : Z :=
  let '(taken, anew, n) := r in
  if anew then fold_right Z.max taken (map (fun m => pays shares held taken m n) (slots_between 0 (top cfg)))
  else pays shares held taken own n.
Definition advance (shares : Z -> Z) (held own : Z) (restored : list Z) (r : runs) (slot : Z) : runs :=
  let '(taken, anew, n) := r in
  if mem slot restored then (finish shares held own (taken, anew, S n), true, O) else (taken, anew, S n).
Definition walk (shares : Z -> Z) (held own first last : Z) (restored : list Z) : runs :=
  fold_left (advance shares held own restored) (slots_between first last) (0, mem (first - 1) restored, O).
Definition most_taken (shares : Z -> Z) (held own first last : Z) (restored : list Z) : Z :=
  finish shares held own (walk shares held own first last restored).

(** ** The store: accounts, old copies of them, and what the witness knows *)

Record public := {
  largest : list (Z * list (Z * Z));   (* by stream and class: the largest share that was asked for, in steps *)
  restored : list (Z * list Z);        (* by stream: the slots after which an old copy went on *)
  billed : list (Z * Z)                (* by stream without classes: the sum of budgets *)
}.
Record state := {
  now : accounts;
  seen : public;
  copies : list (accounts * list (Z * Z));      (* with what was billed by then *)
  paid : list (Z * Z * Z)                       (* never forgotten: epoch, debit, loss E · grains of every payment *)
}.
Definition nothing : public := {| largest := []; restored := []; billed := [] |}.
(** Before the first slot, where [n] of ε is other streams'. *)
Definition start (n : Z) : state := {| now := open_accounts n; seen := nothing; copies := []; paid := [] |}.

Definition share_of (p : public) (s m : Z) : Z := get 0 m (get [] s (largest p)).
Definition raised (share : Z) : Z := if share =? 0 then SHARE_STEPS else share.
Definition bump (l : list (Z * Z)) (class : Z * Z) : list (Z * Z) :=
  set (fst class) (Z.max (get 0 (fst class) l) (snd class)) l.
Definition asks (groups : list group) (l : list (Z * Z)) : list (Z * Z) :=
  fold_left bump (concat (map snd groups)) l.

Definition streams (a : accounts) : list Z := map fst (slots a).
Definition last_of (a : accounts) (s : Z) : Z := get 0 s (slots a).
Definition first_lost (c : accounts) (s k : Z) : Z :=      (* in epoch k *)
  if period cfg =? 0 then last_of c s + 1 else Z.max (last_of c s + 1) (k * period cfg).

Definition lost_of (st : state) (copy : accounts * list (Z * Z)) (own held k s : Z) : Z :=
  let (c, billed_then) := copy in
  if by_class cfg s then
    most_taken (fun m => raised (share_of (seen st) s m)) held own
               (first_lost c s k) (last_of (now st) s) (get [] s (restored (seen st)))
  else Z.min (get 0 s (billed (seen st)) - get 0 s billed_then) LARGEST.

Definition newest (l : list (Z * Z)) : Z := fold_right Z.max (match l with [] => 0 | (_, t) :: _ => t end) (map snd l).

(** [charge_lost]: what the slots that a copy has forgotten can have taken is taken from what it has left. *)
Definition charge_lost (st : state) (copy : accounts * list (Z * Z)) : accounts :=
  let (c, billed_then) := copy in
  let k := epoch_of (newest (slots (now st))) in
  let all := streams (now st) in
  if existsb (by_class cfg) all then
    let av := available_at c k in
    let had := left_at c k in
    let taken := Z.min (sum (map (fun s => lost_of st copy (class_of c s k) had k s) all)) had in
    let levy := Z.min (sum (map (fun s => lost_of st copy 0 av k s) all)) av in
    {| table := {| spent := av - levy - (had - taken); active := active (view k (table c)); epoch := k |};
       own := own c; slots := slots (now st); levies := levies c ++ [(k, levy)]; assigned := assigned (now st) |}
  else
    {| table := table c; own := own c; slots := slots (now st);
       levies := levies c ++ [(k, sum (map (fun s => get 0 s (billed (seen st)) - get 0 s billed_then) all))];
       assigned := assigned (now st) |}.

Inductive action :=
  | PayPolicy (stream slot e num den : Z) (whole here : bool)
  | PayClass (stream slot : Z) (groups : list group) (whole here : bool)
  | Levy (slot units : Z)
  | Assign (units bound : Z)
  | Copy
  | Restore (number : nat).

Definition in_turn (a : accounts) (s t : Z) : bool :=
  (negb (has s (slots a)) || (last_of a s <? t)) &&
  ((period cfg =? 0) || forallb (Z.eqb s) (streams a)).
Definition well_asked (groups : list group) : bool :=
  forallb (fun g : group => (0 <=? fst g) &&
    forallb (fun c => (0 <=? fst c) && (fst c <=? top cfg) && (0 <? snd c) && (snd c <=? SHARE_STEPS)) (snd g)) groups.

(** The user's weight and debit of a slot that nobody refuses; None where the bill is refused. *)
Definition settle (st : state) (s t price grains : Z) (seen' : public) : option (state * (Z * Z)) :=
  match pay (now st) s t price grains with
  | None => None
  | Some (a, cost) =>
      Some ({| now := a; seen := seen'; copies := copies st;
               paid := (epoch_of t, debit price grains, price * grains) :: paid st |}, (grains, cost))
  end.

Definition step (st : state) (x : action) : option (state * (Z * Z)) :=
  match x with
  | PayPolicy s t e num den whole here =>
      if in_turn (now st) s t && negb (by_class cfg s) && (0 <=? e) && (0 <? num) && (num <=? den) && (den <=? SHARE_STEPS)
      then
        let grains := weight (whole_or_none whole (weights_by_policy (now st) (epoch_of t) e num den)) in
        let p := seen st in
        settle st s t e (if here then grains else 0)
          {| largest := largest p; restored := restored p; billed := set s (get 0 s (billed p) + e) (billed p) |}
      else None
  | PayClass s t groups whole here =>
      if in_turn (now st) s t && by_class cfg s && well_asked groups then
        let (price, grains) := weights_by_class (now st) s (epoch_of t) groups in
        let p := seen st in
        settle st s t price (if here then weight (whole_or_none whole grains) else 0)
          {| largest := set s (asks groups (get [] s (largest p))) (largest p); restored := restored p; billed := billed p |}
      else None
  | Levy t units =>
      if 0 <=? units then
        let a := now st in
        Some ({| now := {| table := table a; own := own a; slots := slots a;
                           levies := levies a ++ [(epoch_of t, units)]; assigned := assigned a |};
                 seen := seen st; copies := copies st; paid := paid st |}, (0, 0))
      else None
  | Assign units bound =>
      let a := now st in
      if (0 <=? units) && (units <=? epsilon cfg) && (period cfg =? 0) &&
         (units - assigned a <=? assignable (held a) bound)
      then Some ({| now := {| table := table a; own := own a; slots := slots a; levies := levies a; assigned := units |};
                    seen := seen st; copies := []; paid := paid st |}, (0, 0))
      else None
  | Copy =>
      Some ({| now := now st; seen := seen st; copies := (now st, billed (seen st)) :: copies st; paid := paid st |}, (0, 0))
  | Restore number =>
      match nth_error (copies st) number with
      | None => None
      | Some copy =>
          if forallb (fun s => has s (slots (fst copy))) (streams (now st)) && negb (match slots (now st) with [] => true | _ => false end) then
            let p := seen st in
            Some ({| now := charge_lost st copy;
                     seen := {| largest := largest p; billed := billed p;
                                restored := fold_right (fun s r => set s (last_of (now st) s :: get [] s r) r)
                                                       (restored p) (streams (now st)) |};
                     copies := copies st; paid := paid st |}, (0, 0))
          else None
      end
  end.

End Ledger.
