(** Admission: which rows are in which slot, and that those of others do not depend on one user.

    Two doors. *Marks* (files that grow, brokers): a timer looks at an input by the public clock; an event belongs to
    the first mark behind it ([dpi.stream.input_positions], [dpi.stream.live], [dpi.service._feeding]). *Batches*
    (HTTP): a batch has the moments of its head and of its last byte, and a slot waits for the batches whose heads
    came before it closes ([dpi.service._receipts]). At both a window judges each event by itself
    ([dpi.events.slots.Window], [dpi.sources.admission]). Where the code holds or refuses, a step is [None] here, or a
    batch is refused. *)

From Coq Require Import ZArith List Bool Lia Permutation.
Import ListNotations.
Open Scope Z_scope.

(** * Slots and windows *)

Record grid := { slot_at : Z -> Z; begins : Z -> Z; lateness : Z }.
Definition EVER : Z := - 2 ^ 62.                                           (* before every clock *)
Definition NEVER : Z := - 2 ^ 63.                                          (* and before every event *)

(** When an event reached the input, if that was recorded with it. *)
Inductive stamp := NoStamp | Unreadable | Stamp (m : Z).
Record event := { user : option Z; time : option Z; bin : option Z; stamped : stamp }.     (* None: missing, or not in the domain *)
Record window := { from : Z; until : Z }.

Definition row := (Z * event)%type.                                         (* a slot, and an event that counts in it *)
Definition is_of (u : Z) (e : event) : bool := match user e with Some v => v =? u | None => false end.
Definition other (u : Z) (e : event) : bool := negb (is_of u e).
Definition others (u : Z) : list event -> list event := filter (other u).
Definition rows_of (n : Z) (l : list row) : list event := map snd (filter (fun r => fst r =? n) l).

(** Slots of fixed width. *)
Definition fixed (origin width late : Z) : grid :=
  {| slot_at := fun m => (m - origin) / width; begins := fun n => origin + n * width; lateness := late |}.

Section Doors.
Variable g : grid.
Variable start : Z.                                                         (* the first slot of the stream *)

Definition closing_time (n : Z) : Z := begins g (n + 1) + lateness g.
Definition first_open (now : Z) : Z := slot_at g (now - lateness g).
Definition next_closing (m : Z) : Z := closing_time (first_open m).

(** A recorded arrival decides within the window ([Columns.narrow], [stamp_window]). *)
Definition narrow (w : window) (e : event) : window :=
  match stamped e with
  | NoStamp => w
  | Unreadable => {| from := Z.max (first_open (until w)) (from w); until := NEVER |}
  | Stamp m => {| from := Z.max (first_open m) (from w); until := Z.min m (until w) |}
  end.
Definition admitted (w : window) (e : event) : option Z :=
  match user e, time e, bin e with
  | Some _, Some t, Some _ =>
      if (from (narrow w e) <=? slot_at g t) && (t <=? until (narrow w e)) then Some (slot_at g t) else None
  | _, _, _ => None
  end.
Definition judge (w : window) (l : list event) : list row :=
  flat_map (fun e => match admitted w e with Some n => [(n, e)] | None => [] end) l.

(** * Marks *)

Record mark := { moment : Z; limit : Z; segment : list event }.              (* [segment]: what came since the mark before *)
Record follower := {
  pending : list event;                 (* has come, and no mark is behind it yet *)
  looked : Z;                           (* the moment of the last look *)
  due : Z;                              (* the first closing time after it *)
  noted : option Z;                     (* the moment of the last mark *)
  queue : list mark;                    (* noted, and not read yet, the oldest first *)
  reached : option Z;                   (* the moment of the last mark that was read *)
  kept : list row;                      (* in the store *)
  next : Z;                             (* the first slot that has not closed *)
  released : list (Z * list event)      (* what each slot held when it closed *)
}.
Definition nobody : follower :=
  {| pending := []; looked := EVER; due := - EVER; noted := None; queue := []; reached := None; kept := [];
     next := start; released := [] |}.

Definition arrive (e : event) (s : follower) : follower :=
  {| pending := pending s ++ [e]; looked := looked s; due := due s; noted := noted s; queue := queue s;
     reached := reached s; kept := kept s; next := next s; released := released s |}.

Definition nonempty {A : Type} (l : list A) : bool := match l with [] => false | _ => true end.
Definition closes_slot (before : option Z) (m : Z) : bool :=
  match before with None => true | Some b => first_open b <? first_open m end.

(** [Timer._look] and [Timer._mark]. An input that does not answer makes no mark: its slots are held. *)
Definition look (clock : Z) (answered always : bool) (s : follower) : follower :=
  let m := Z.max clock (looked s) in
  let d := next_closing m in
  let u := if due s <=? m then d else next_closing d in
  if answered && (always || closes_slot (noted s) m || nonempty (pending s)) then
    {| pending := []; looked := m; due := d; noted := Some m;
       queue := queue s ++ [{| moment := m; limit := u; segment := pending s |}];
       reached := reached s; kept := kept s; next := next s; released := released s |}
  else
    {| pending := pending s; looked := m; due := d; noted := noted s; queue := queue s;
       reached := reached s; kept := kept s; next := next s; released := released s |}.

(** The program was stopped: a new timer, which knows the last mark. *)
Definition restart (s : follower) : follower :=
  {| pending := pending s; looked := match noted s with None => EVER | Some m => m end; due := - EVER; noted := noted s;
     queue := queue s; reached := reached s; kept := kept s; next := next s; released := released s |}.

(** [Mark.window]: [Follower.reach] reads up to the oldest mark that is left. None: it waits for one. *)
Definition opened_by (first : Z) (before : option Z) : Z :=
  match before with None => first | Some b => Z.max first (first_open b) end.
Definition read (s : follower) : option follower :=
  match queue s with
  | [] => None
  | m :: q =>
      Some {| pending := pending s; looked := looked s; due := due s; noted := noted s; queue := q;
              reached := Some (moment m);
              kept := kept s ++ judge {| from := opened_by (next s) (reached s); until := limit m |} (segment m);
              next := next s; released := released s |}
  end.

(** A slot closes when everything up to a mark after its closing time is kept. None: it is held. *)
Definition close (s : follower) : option follower :=
  match reached s with
  | Some b =>
      if next s <? first_open b then
        Some {| pending := pending s; looked := looked s; due := due s; noted := noted s; queue := queue s;
                reached := reached s; kept := kept s; next := next s + 1;
                released := (next s, rows_of (next s) (kept s)) :: released s |}
      else None
  | None => None
  end.

Inductive happening := Arrive (e : event) | Look (clock : Z) (answered always : bool) | Restart | Read | Close.
Definition happens (x : happening) (s : follower) : option follower :=
  match x with
  | Arrive e => Some (arrive e s)
  | Look clock answered always => Some (look clock answered always s)
  | Restart => Some (restart s)
  | Read => read s
  | Close => close s
  end.
Definition follow (x : happening) (s : follower) : follower := match happens x s with Some s' => s' | None => s end.
Definition play (script : list happening) : follower := fold_left (fun s x => follow x s) script nobody.

(** * Batches *)

Record batch := { id : Z; head : Z; ended : Z; events : list event }.
Record door := {
  unread : list batch;                  (* their heads have arrived, and nobody has read them *)
  receipts : list (batch * Z);          (* on their way, with the moment of the receipt *)
  stored : list batch;                  (* durable *)
  refused : list batch;                 (* their senders were told so *)
  closed : Z;                           (* no receipt gets an earlier moment *)
  seen : Z;                             (* what had come by then is read *)
  made : Z;                             (* the first slot of the admission that reads batches *)
  used : list Z;                        (* batches that are being read by it *)
  table : list (Z * row);               (* what is kept, with the batch that it came in *)
  upcoming : Z;                         (* the first slot that has not closed *)
  closings : list (Z * list (Z * event))
}.
Definition nothing_came : door :=
  {| unread := []; receipts := []; stored := []; refused := []; closed := 0; seen := 0; made := start; used := []; table := [];
     upcoming := start; closings := [] |}.

Fixpoint find (n : Z) (l : list batch) : option (batch * list batch) :=
  match l with
  | [] => None
  | b :: l' => if id b =? n then Some (b, l')
               else match find n l' with Some (c, rest) => Some (c, b :: rest) | None => None end
  end.
Fixpoint find_receipt (n : Z) (l : list (batch * Z)) : option (batch * Z * list (batch * Z)) :=
  match l with
  | [] => None
  | (b, m) :: l' => if id b =? n then Some (b, m, l')
                    else match find_receipt n l' with Some (c, k, rest) => Some (c, k, (b, m) :: rest) | None => None end
  end.

(** Everything that has come. *)
Definition came (s : door) : list batch := unread s ++ map fst (receipts s) ++ stored s ++ refused s.

(** What is kept of a batch: by its own moments, and the time of each event. *)
Definition batch_window (first receipt last : Z) : window :=
  {| from := Z.max first (first_open receipt); until := next_closing (Z.max receipt last) |}.
Definition own_rows (b : batch) : list row := judge (batch_window start (head b) (ended b)) (events b).
Definition tag (b : batch) (l : list row) : list (Z * row) := map (fun r => (id b, r)) l.
Definition held_rows (n : Z) (l : list (Z * row)) : list (Z * event) :=
  map (fun r => (fst r, snd (snd r))) (filter (fun r => fst (snd r) =? n) l).

Inductive motion :=
  | Comes (b : batch)                   (* a head arrives: a moment that no look before has seen *)
  | Takes (n : Z)                       (* the thread that moves bytes reads it *)
  | Looks (now : Z)                     (* that thread has gone round: all that had come by then is read *)
  | Keeps (n : Z)                       (* it is durable *)
  | Refuses (n : Z)                     (* or its sender is told that it is not *)
  | Leaves (n : Z)                      (* it turns out to be for another stream *)
  | Closes                              (* the next slot *)
  | Others (m : Z)                      (* another stream closes a slot at that moment *)
  | Uses (n : Z)                        (* the admission begins to read it *)
  | Renews.                             (* options change: a new admission, which waits for those that are being read *)

Definition moves (x : motion) (s : door) : option door :=
  match x with
  | Comes b =>
      if (seen s <=? head b) && forallb (fun c => negb (id c =? id b)) (came s) then
        Some {| unread := unread s ++ [b]; receipts := receipts s; stored := stored s; refused := refused s;
                closed := closed s; seen := seen s; made := made s; used := used s; table := table s; upcoming := upcoming s;
                closings := closings s |}
      else None
  | Takes n =>
      match find n (unread s) with
      | Some (b, rest) =>
          Some {| unread := rest; receipts := receipts s ++ [(b, Z.max (closed s) (head b))]; stored := stored s;
                  refused := refused s; closed := closed s; seen := seen s; made := made s; used := used s; table := table s;
                  upcoming := upcoming s; closings := closings s |}
      | None => None
      end
  | Looks now =>
      if forallb (fun b => now <=? head b) (unread s) then
        Some {| unread := unread s; receipts := receipts s; stored := stored s; refused := refused s;
                closed := closed s; seen := Z.max (seen s) now; made := made s; used := used s; table := table s;
                upcoming := upcoming s; closings := closings s |}
      else None
  | Keeps n =>
      match find_receipt n (receipts s) with
      | Some (b, m, rest) =>
          Some {| unread := unread s; receipts := rest; stored := stored s ++ [b]; refused := refused s;
                  closed := closed s; seen := seen s; made := made s; used := remove Z.eq_dec n (used s);
                  table := table s ++ tag b (judge (batch_window (made s) m (ended b)) (events b));
                  upcoming := upcoming s; closings := closings s |}
      | None => None
      end
  | Refuses n | Leaves n =>
      match find_receipt n (receipts s) with
      | Some (b, m, rest) =>
          Some {| unread := unread s; receipts := rest; stored := stored s; refused := refused s ++ [b];
                  closed := closed s; seen := seen s; made := made s; used := remove Z.eq_dec n (used s);
                  table := table s; upcoming := upcoming s; closings := closings s |}
      | None => None
      end
  | Closes =>
      let moment := closing_time (upcoming s) in
      if seen s <? moment then None
      else
        if forallb (fun r => moment <=? snd r) (receipts s) then
          Some {| unread := unread s; receipts := receipts s; stored := stored s; refused := refused s;
                  closed := Z.max (closed s) moment; seen := seen s; made := made s; used := used s; table := table s;
                  upcoming := upcoming s + 1;
                  closings := (upcoming s, held_rows (upcoming s) (table s)) :: closings s |}
        else
          Some {| unread := unread s; receipts := receipts s; stored := stored s; refused := refused s;
                  closed := Z.max (closed s) moment; seen := seen s; made := made s; used := used s; table := table s;
                  upcoming := upcoming s; closings := closings s |}
  | Others m =>
      if seen s <? m then None
      else Some {| unread := unread s; receipts := receipts s; stored := stored s; refused := refused s;
                   closed := Z.max (closed s) m; seen := seen s; made := made s; used := used s; table := table s;
                   upcoming := upcoming s; closings := closings s |}
  | Uses n =>
      match find_receipt n (receipts s) with
      | Some _ =>
          Some {| unread := unread s; receipts := receipts s; stored := stored s; refused := refused s;
                  closed := closed s; seen := seen s; made := made s; used := n :: used s; table := table s;
                  upcoming := upcoming s; closings := closings s |}
      | None => None
      end
  | Renews =>
      match used s with
      | [] =>
          Some {| unread := unread s; receipts := receipts s; stored := stored s; refused := refused s;
                  closed := closed s; seen := seen s; made := upcoming s; used := []; table := table s;
                  upcoming := upcoming s; closings := closings s |}
      | _ => None
      end
  end.

(** * Theorems *)

(** A slot is an interval of time: what all grids have, of fixed width and of a calendar. *)
Hypothesis intervals : forall t n, t < begins g n <-> slot_at g t < n.

Lemma slot_mono : forall t t', t <= t' -> slot_at g t <= slot_at g t'.
Proof.
  intros t t' L. destruct (Z.le_gt_cases (slot_at g t) (slot_at g t')) as [|G]; [assumption|].
  apply intervals in G. assert (t < begins g (slot_at g t)) by lia. apply intervals in H. lia.
Qed.

Lemma open_mono : forall m m', m <= m' -> first_open m <= first_open m'.
Proof. intros. apply slot_mono. lia. Qed.

Lemma opened_mono : forall first m m', m <= m' -> opened_by first (Some m) <= opened_by first (Some m').
Proof. intros first m m' L. pose proof (open_mono m m' L). cbn. lia. Qed.

Lemma next_closing_later : forall m, m < next_closing m.
Proof.
  intros. unfold next_closing, closing_time, first_open.
  assert (m - lateness g < begins g (slot_at g (m - lateness g) + 1)) by (apply intervals; lia). lia.
Qed.

Lemma before_closing : forall m n, m < closing_time n <-> first_open m <= n.
Proof.
  intros. unfold closing_time, first_open. split; intros H.
  - assert (m - lateness g < begins g (n + 1)) by lia. apply intervals in H0. lia.
  - assert (slot_at g (m - lateness g) < n + 1) by lia. apply intervals in H0. lia.
Qed.

(** ** Rows *)

Lemma filter_flat_map : forall (A B : Type) (p : B -> bool) (f : A -> list B) l,
  filter p (flat_map f l) = flat_map (fun x => filter p (f x)) l.
Proof. induction l as [|x l IH]; cbn; [reflexivity|]. now rewrite filter_app, IH. Qed.

Definition others_rows (u : Z) : list row -> list row := filter (fun r => other u (snd r)).

Lemma judge_app : forall w l l', judge w (l ++ l') = judge w l ++ judge w l'.
Proof. intros. apply flat_map_app. Qed.

(** Each event is judged by itself. *)
Lemma judge_others : forall u w l, others_rows u (judge w l) = judge w (others u l).
Proof.
  intros u w. unfold judge, others_rows, others. induction l as [|e l IH]; cbn; [reflexivity|]. rewrite filter_app, IH.
  destruct (admitted w e) as [n|] eqn:A; cbn; destruct (other u e) eqn:O; cbn; rewrite ?A; reflexivity.
Qed.

Lemma judge_from : forall w l n e, In (n, e) (judge w l) -> from w <= n.
Proof.
  intros w l n e H. apply in_flat_map in H as [x [_ H]]. unfold admitted in H.
  destruct (user x), (time x), (bin x); try contradiction. destruct (_ && _) eqn:E; [|contradiction].
  destruct H as [H|[]]. injection H as <- _. apply andb_true_iff in E as [E _]. apply Z.leb_le in E.
  enough (from w <= from (narrow w x)) by lia. unfold narrow. destruct (stamped x); cbn; lia.
Qed.

Lemma rows_of_app : forall n l l', rows_of n (l ++ l') = rows_of n l ++ rows_of n l'.
Proof. intros. unfold rows_of. now rewrite filter_app, map_app. Qed.

Lemma rows_of_none : forall n l, (forall m e, In (m, e) l -> n < m) -> rows_of n l = [].
Proof.
  intros n l. unfold rows_of. induction l as [|[m e] l IH]; intros H; cbn; [reflexivity|].
  pose proof (H m e (or_introl eq_refl)). destruct (Z.eqb_spec m n); [lia|]. apply IH. intros. eapply H. right. eassumption.
Qed.

Lemma rows_of_others : forall u n l, others u (rows_of n l) = rows_of n (others_rows u l).
Proof.
  intros u n l. unfold rows_of, others, others_rows. induction l as [|[m e] l IH]; cbn; [reflexivity|].
  destruct (m =? n) eqn:E, (other u e) eqn:O; cbn; rewrite ?E; cbn; rewrite ?O, ?IH; reflexivity.
Qed.

(** ** Marks *)

Fixpoint judge_queue (before : option Z) (q : list mark) : list row :=
  match q with
  | [] => []
  | m :: q' => judge {| from := opened_by start before; until := limit m |} (segment m) ++ judge_queue (Some (moment m)) q'
  end.
(** What will be kept of all that a mark is behind, and of all that has come. *)
Definition noted_rows (s : follower) : list row := kept s ++ judge_queue (reached s) (queue s).
Definition foreseen (s : follower) : list row :=
  noted_rows s ++ judge {| from := opened_by start (noted s); until := next_closing (due s) |} (pending s).

Fixpoint last_of (before : option Z) (q : list mark) : option Z :=
  match q with [] => before | m :: q' => last_of (Some (moment m)) q' end.
Definition not_after (before : option Z) (m : Z) : Prop := match before with None => True | Some b => b <= m end.
Fixpoint in_order (before : option Z) (q : list mark) : Prop :=
  match q with [] => True | m :: q' => not_after before (moment m) /\ in_order (Some (moment m)) q' end.

Record good (s : follower) : Prop := {
  g_last : noted s = last_of (reached s) (queue s);
  g_order : in_order (reached s) (queue s);
  g_looked : not_after (noted s) (looked s);
  g_next : start <= next s <= opened_by start (reached s);
  g_closed : forall n l, In (n, l) (released s) -> n < next s /\ l = rows_of n (kept s)
}.

Lemma last_app : forall q before m, last_of before (q ++ [m]) = Some (moment m).
Proof. induction q; intros; cbn; auto. Qed.

Lemma order_app : forall q before m, in_order before q -> not_after (last_of before q) (moment m) -> in_order before (q ++ [m]).
Proof. induction q; intros before m O L; cbn in *; [auto|]. split; [tauto|]. apply IHq; tauto. Qed.

Lemma queue_app : forall q before m, judge_queue before (q ++ [m]) =
  judge_queue before q ++ judge {| from := opened_by start (last_of before q); until := limit m |} (segment m).
Proof.
  induction q as [|m' q IH]; intros before m; cbn; [now rewrite app_nil_r|]. now rewrite IH, app_assoc.
Qed.

(** Nothing is kept for a slot that has closed. *)
Lemma queue_from : forall q before n e, in_order before q -> In (n, e) (judge_queue before q) -> opened_by start before <= n.
Proof.
  induction q as [|m q IH]; intros before n e O I; cbn in *; [contradiction|]. apply in_app_or in I as [I|I].
  - apply judge_from in I. exact I.
  - destruct O as [L O]. specialize (IH _ _ _ O I). destruct before as [b|]; [|cbn in *; lia].
    pose proof (opened_mono start b (moment m) L). lia.
Qed.

Lemma last_from : forall q before, in_order before q -> opened_by start before <= opened_by start (last_of before q).
Proof.
  induction q as [|m q IH]; intros before O; cbn [last_of]; [lia|]. destruct O as [L O]. specialize (IH _ O).
  destruct before as [b|]; [|cbn in *; lia]. pose proof (opened_mono start b (moment m) L). lia.
Qed.

Lemma good_nobody : good nobody.
Proof. constructor; cbn; auto; try lia; contradiction. Qed.

(** The stream's next slot adds nothing to what the marks say. *)
Lemma window_of_marks : forall s, good s -> opened_by (next s) (reached s) = opened_by start (reached s).
Proof. intros s G. pose proof (g_next _ G). destruct (reached s); cbn in *; lia. Qed.

Lemma happens_good : forall x s s', good s -> happens x s = Some s' -> good s'.
Proof.
  intros x s s' G E. pose proof (window_of_marks s G) as W. destruct G as [Gl Go Gk Gn Gc].
  destruct x; cbn in E; [injection E as <-| injection E as <-|injection E as <-| |].
  - constructor; assumption.
  - unfold look. destruct (_ && _).
    + constructor; cbn [noted queue reached next kept released looked]; try assumption; [now rewrite last_app| |cbn; lia].
      apply order_app; [assumption|]. rewrite <- Gl. destruct (noted s); cbn in *; [lia|exact I].
    + constructor; cbn [noted queue reached next kept released looked]; try assumption.
      destruct (noted s); cbn in *; [lia|exact I].
  - constructor; cbn; auto. destruct (noted s); cbn; lia || exact I.
  - unfold read in E. destruct (queue s) as [|m q] eqn:Q; [discriminate|]. injection E as <-. cbn in Go.
    destruct Go as [L O]. constructor; cbn [noted queue reached next kept released looked last_of]; auto.
    + split; [lia|]. destruct (reached s) as [b|]; [pose proof (opened_mono start b (moment m) L); lia|cbn in *; lia].
    + intros n l I. destruct (Gc n l I) as [N ->]. split; [assumption|]. rewrite rows_of_app, W.
      rewrite (rows_of_none n (judge _ _)); [now rewrite app_nil_r|]. intros k e K. apply judge_from in K. cbn in K. lia.
  - unfold close in E. destruct (reached s) as [b|] eqn:R; [|discriminate]. destruct (Z.ltb_spec (next s) (first_open b)); [|discriminate].
    injection E as <-. constructor; cbn [noted queue reached next kept released looked]; rewrite ?R; auto.
    + cbn in *. lia.
    + intros n l [I|I]; [injection I as <- <-; split; [lia|reflexivity]|]. destruct (Gc n l I). split; [lia|assumption].
Qed.

(** A slot that has closed holds what is foreseen of it, and nothing more will come. *)
Lemma closed_slot : forall s n l, good s -> In (n, l) (released s) -> l = rows_of n (foreseen s).
Proof.
  intros s n l G I. destruct (g_closed _ G n l I) as [N ->]. pose proof (g_next _ G) as Gn.
  unfold foreseen, noted_rows. rewrite !rows_of_app.
  rewrite (rows_of_none n (judge_queue _ _)), (rows_of_none n (judge _ _)); [now rewrite !app_nil_r| |].
  - intros k e K. apply judge_from in K. cbn in K. rewrite (g_last _ G) in K. pose proof (last_from _ _ (g_order _ G)). lia.
  - intros k e K. apply (queue_from _ _ _ _ (g_order _ G)) in K. lia.
Qed.

(** *** A schedule of marks that is a function of the clock alone: any failures, stops and pauses *)

Definition drop_mark (u : Z) (m : mark) : mark := {| moment := moment m; limit := limit m; segment := others u (segment m) |}.
Definition drop (u : Z) (s : follower) : follower :=
  {| pending := others u (pending s); looked := looked s; due := due s; noted := noted s;
     queue := map (drop_mark u) (queue s); reached := reached s; kept := others_rows u (kept s); next := next s;
     released := map (fun r => (fst r, others u (snd r))) (released s) |}.

(** The script without user [u]: the same looks, stops and closings; every look that is answered makes a mark. *)
Definition without (u : Z) (script : list happening) : list happening :=
  filter (fun x => match x with Arrive e => other u e | _ => true end) script.
Definition by_clock (x : happening) : Prop := match x with Look _ answered always => answered = true -> always = true | _ => True end.

Lemma follow_without : forall u x s, by_clock x -> drop u (follow x s) =
  match x with Arrive e => if other u e then follow x (drop u s) else drop u s | _ => follow x (drop u s) end.
Proof.
  intros u x s B. destruct x as [e|clock answered always| | |]; unfold follow; cbn [happens].
  - unfold drop, arrive. cbn. unfold others. rewrite filter_app. cbn.
    destruct (other u e); cbn; [reflexivity|]. rewrite app_nil_r. destruct s; reflexivity.
  - unfold look. cbn in B. destruct answered; [rewrite (B eq_refl); cbn|]; unfold drop; cbn; [|reflexivity].
    now rewrite map_app.
  - reflexivity.
  - unfold read. cbn. destruct (queue s) as [|m q]; cbn; [reflexivity|]. unfold drop. cbn. f_equal.
    unfold others_rows. rewrite filter_app. f_equal. apply judge_others.
  - unfold close. cbn. destruct (reached s); [|reflexivity]. destruct (_ <? _); [|reflexivity]. unfold drop. cbn.
    now rewrite rows_of_others.
Qed.

Theorem marks_by_the_clock : forall u script, (forall x, In x script -> by_clock x) ->
  drop u (play script) = play (without u script).
Proof.
  intros u script B. unfold play. replace nobody with (drop u nobody) at 2 by reflexivity. revert B.
  generalize nobody. induction script as [|x l IH]; intros s B; cbn [fold_left]; [reflexivity|].
  rewrite IH by (intros y Y; apply B; now right).
  pose proof (follow_without u x s (B x (or_introl eq_refl))) as F.
  destruct x; cbn [without filter] in *; try (cbn [fold_left]; rewrite F; reflexivity).
  rewrite F. destruct (other u e); reflexivity.
Qed.

(** In words: what others have in each slot is what they have there without [u]. *)
Corollary others_slots : forall u script, (forall x, In x script -> by_clock x) ->
  map (fun r => (fst r, others u (snd r))) (released (play script)) = released (play (without u script)).
Proof. intros u script B. now rewrite <- (marks_by_the_clock u script B). Qed.

(** *** Looks between closing times decide nothing *)

(** Two runs: the first has events of [u], the second has not. Both look at every closing time, are answered, and are not
    a whole slot late. Looks in between, how far is read, and when slots are closed, are anything in each. *)
Inductive twins (u : Z) : follower -> follower -> Prop :=
  | begin : forall clock, EVER < clock -> twins u (look clock true true nobody) (look clock true true nobody)
  | somebody : forall e s s', other u e = true -> twins u s s' -> twins u (arrive e s) (arrive e s')
  | the_user : forall e s s', other u e = false -> twins u s s' -> twins u (arrive e s) s'
  | one_looks : forall clock answered always s s', clock < due s -> twins u s s' -> twins u (look clock answered always s) s'
  | other_looks : forall clock answered always s s', clock < due s' -> twins u s s' -> twins u s (look clock answered always s')
  | both_look : forall clock always always' s s', due s <= clock < next_closing (due s) -> twins u s s' ->
      twins u (look clock true always s) (look clock true always' s')
  | one_goes_on : forall x s s1 s', x = Read \/ x = Close -> happens x s = Some s1 -> twins u s s' -> twins u s1 s'
  | other_goes_on : forall x s s' s1, x = Read \/ x = Close -> happens x s' = Some s1 -> twins u s s' -> twins u s s1.

Definition steady (s : follower) : Prop :=
  due s = next_closing (looked s) /\ exists b, noted s = Some b /\ first_open b = first_open (looked s).

Lemma look_between : forall clock answered always s, good s -> steady s -> clock < due s ->
  let s' := look clock answered always s in
  steady s' /\ foreseen s' = foreseen s /\ due s' = due s /\ opened_by start (noted s') = opened_by start (noted s).
Proof.
  intros clock answered always s G [D (b & N & B)] C. pose proof (next_closing_later (looked s)) as Later.
  set (m := Z.max clock (looked s)). assert (M : looked s <= m < due s) by (unfold m; lia).
  assert (O : first_open m = first_open (looked s)).
  { pose proof (open_mono _ _ (proj1 M)). destruct M as [_ M]. rewrite D in M. apply before_closing in M. lia. }
  assert (D' : next_closing m = due s) by (rewrite D; unfold next_closing; now rewrite O).
  cbv zeta. unfold look. fold m. rewrite D'. destruct (Z.leb_spec (due s) m); [lia|].
  destruct (answered && _); unfold steady, foreseen, noted_rows; cbn -[opened_by].
  - split; [split; [now symmetry|exists m; auto]|]. rewrite queue_app, <- (g_last _ G), app_nil_r, N. cbn.
    rewrite O, B, app_assoc. auto.
  - split; [split; [now symmetry|exists b; split; [assumption|congruence]]|auto].
Qed.

Lemma look_closes : forall clock always s, good s -> steady s -> due s <= clock < next_closing (due s) ->
  let s' := look clock true always s in
  steady s' /\ foreseen s' = foreseen s /\ due s' = next_closing clock /\ noted s' = Some clock.
Proof.
  intros clock always s G [D (b & N & B)] C. pose proof (next_closing_later (looked s)) as Later.
  assert (M : Z.max clock (looked s) = clock) by lia.
  assert (O : first_open b < first_open clock).
  { rewrite B. destruct (Z.le_gt_cases (first_open clock) (first_open (looked s))) as [E|E]; [|lia].
    apply before_closing in E. fold (next_closing (looked s)) in E. lia. }
  assert (D' : next_closing clock = next_closing (due s)).
  { destruct C as [C1 C2]. pose proof (open_mono _ _ C1). apply before_closing in C2. unfold next_closing. f_equal. lia. }
  cbv zeta. unfold look. rewrite M, N. cbn [closes_slot]. destruct (Z.ltb_spec (first_open b) (first_open clock)); [|lia].
  rewrite orb_true_r. cbn [andb orb]. destruct (Z.leb_spec (due s) clock); [|lia].
  unfold steady, foreseen, noted_rows. cbn -[opened_by]. rewrite queue_app, <- (g_last _ G), app_nil_r. cbn [limit segment].
  rewrite D', N, app_assoc. repeat split; auto. exists clock. auto.
Qed.

Lemma goes_on_foreseen : forall x s s', x = Read \/ x = Close -> good s -> happens x s = Some s' ->
  foreseen s' = foreseen s /\ noted s' = noted s /\ due s' = due s /\ looked s' = looked s.
Proof.
  intros x s s' [->| ->] G E; cbn in E.
  - unfold read in E. destruct (queue s) as [|m q] eqn:Q; [discriminate|]. injection E as <-.
    unfold foreseen, noted_rows. cbn -[opened_by]. rewrite Q, (window_of_marks s G). cbn [judge_queue].
    rewrite <- !app_assoc. auto.
  - unfold close in E. destruct (reached s) as [b|] eqn:R; [|discriminate]. destruct (_ <? _); [|discriminate].
    injection E as <-. unfold foreseen, noted_rows. cbn. rewrite R. auto.
Qed.

Lemma foreseen_arrives : forall e s, foreseen (arrive e s) =
  foreseen s ++ judge {| from := opened_by start (noted s); until := next_closing (due s) |} [e].
Proof. intros. unfold foreseen, noted_rows. cbn -[opened_by judge]. now rewrite judge_app, !app_assoc. Qed.

Lemma others_rows_app : forall u l l', others_rows u (l ++ l') = others_rows u l ++ others_rows u l'.
Proof. intros. apply filter_app. Qed.

Lemma twins_agree : forall u s s', twins u s s' ->
  good s /\ good s' /\ steady s /\ steady s' /\ due s = due s' /\
  opened_by start (noted s) = opened_by start (noted s') /\ others_rows u (foreseen s) = others_rows u (foreseen s').
Proof.
  induction 1 as [clock C|e s s' O _ IH|e s s' O _ IH|clock an al s s' C _ IH|clock an al s s' C _ IH
    |clock al al' s s' C _ IH|x s s1 s' X E _ IH|x s s' s1 X E _ IH].
  - pose proof (happens_good (Look clock true true) nobody _ good_nobody eq_refl) as G.
    assert (S : steady (look clock true true nobody)).
    { unfold look, steady. cbn [looked nobody due noted pending andb orb]. replace (Z.max clock EVER) with clock by lia.
      cbn. split; [reflexivity|]. exists clock. auto. }
    repeat (split; [assumption|]). auto.
  - destruct IH as (G & G' & S & S' & D & N & F). split; [constructor; apply G|]. split; [constructor; apply G'|].
    split; [exact S|]. split; [exact S'|]. split; [exact D|]. split; [exact N|].
    now rewrite !foreseen_arrives, !others_rows_app, F, N, D.
  - destruct IH as (G & G' & S & S' & D & N & F). split; [constructor; apply G|]. do 5 (split; [assumption|]).
    rewrite <- F, foreseen_arrives, others_rows_app, judge_others. unfold others. cbn [filter]. rewrite O.
    apply app_nil_r.
  - destruct IH as (G & G' & S & S' & D & N & F). destruct (look_between clock an al s G S C) as (S1 & F1 & D1 & N1).
    split; [exact (happens_good (Look clock an al) s _ G eq_refl)|]. do 2 (split; [assumption|]). split; [assumption|].
    rewrite D1, N1, F1. auto.
  - destruct IH as (G & G' & S & S' & D & N & F). destruct (look_between clock an al s' G' S' C) as (S1 & F1 & D1 & N1).
    split; [assumption|]. split; [exact (happens_good (Look clock an al) s' _ G' eq_refl)|]. split; [assumption|].
    split; [assumption|]. rewrite D1, N1, F1. auto.
  - destruct IH as (G & G' & S & S' & D & N & F). destruct (look_closes clock al s G S C) as (S1 & F1 & D1 & N1).
    rewrite D in C. destruct (look_closes clock al' s' G' S' C) as (S2 & F2 & D2 & N2).
    split; [exact (happens_good (Look clock true al) s _ G eq_refl)|].
    split; [exact (happens_good (Look clock true al') s' _ G' eq_refl)|].
    do 2 (split; [assumption|]). rewrite D1, D2, N1, N2, F1, F2. auto.
  - destruct IH as (G & G' & S & S' & D & N & F). destruct (goes_on_foreseen x s s1 X G E) as (F1 & N1 & D1 & L1).
    split; [exact (happens_good x s s1 G E)|]. split; [assumption|].
    split; [unfold steady; rewrite D1, L1, N1; exact S|]. split; [assumption|]. rewrite D1, N1, F1. auto.
  - destruct IH as (G & G' & S & S' & D & N & F). destruct (goes_on_foreseen x s' s1 X G' E) as (F1 & N1 & D1 & L1).
    split; [assumption|]. split; [exact (happens_good x s' s1 G' E)|]. split; [assumption|].
    split; [unfold steady; rewrite D1, L1, N1; exact S'|]. rewrite D1, N1, F1. auto.
Qed.

(** Others' rows in a slot are the same with and without [u], however looks between closing times, the reader and the
    closing of slots differ by what [u] sends. *)
Theorem others_rows_alone : forall u s s', twins u s s' ->
  forall n l l', In (n, l) (released s) -> In (n, l') (released s') -> others u l = others u l'.
Proof.
  intros u s s' T n l l' I I'. destruct (twins_agree u s s' T) as (G & G' & _ & _ & _ & _ & F).
  rewrite (closed_slot s n l G I), (closed_slot s' n l' G' I'), !rows_of_others, F. reflexivity.
Qed.

(** ** Batches *)

(** What can happen at the door, in any order and for ever. *)
Inductive reachable : door -> Prop :=
  | opens : reachable nothing_came
  | on : forall x s s', reachable s -> moves x s = Some s' -> reachable s'.

Record sound (s : door) : Prop := {
  s_ids : NoDup (map id (came s));
  s_unread : forall b, In b (unread s) -> seen s <= head b;
  s_receipts : forall b m, In (b, m) (receipts s) -> m = head b;
  s_seen : closed s <= seen s;
  s_made : start <= made s <= upcoming s;
  s_open : forall n, start <= n < upcoming s ->
    closing_time n <= seen s /\ forall b m, In (b, m) (receipts s) -> closing_time n <= m;
  s_table : table s = flat_map (fun b => tag b (own_rows b)) (stored s);
  s_closings : forall n l, In (n, l) (closings s) -> start <= n < upcoming s /\ l = held_rows n (table s)
}.

Lemma find_spec : forall n l b rest, find n l = Some (b, rest) -> Permutation l (b :: rest).
Proof.
  induction l as [|c l IH]; intros b rest E; cbn in E; [discriminate|]. destruct (id c =? n).
  - injection E as <- <-. reflexivity.
  - destruct (find n l) as [[d r]|] eqn:F; [|discriminate]. injection E as <- <-. rewrite (IH _ _ eq_refl). apply perm_swap.
Qed.

Lemma find_receipt_spec : forall n l b m rest, find_receipt n l = Some (b, m, rest) -> Permutation l ((b, m) :: rest).
Proof.
  induction l as [|[c k] l IH]; intros b m rest E; cbn in E; [discriminate|]. destruct (id c =? n).
  - injection E as <- <- <-. reflexivity.
  - destruct (find_receipt n l) as [[[d k'] r]|] eqn:F; [|discriminate]. injection E as <- <- <-.
    rewrite (IH _ _ _ eq_refl). apply perm_swap.
Qed.

Lemma sound_nothing : sound nothing_came.
Proof. constructor; cbn; try contradiction; try lia; try constructor. Qed.

Lemma ids_moved : forall s s', Permutation (came s') (came s) -> NoDup (map id (came s)) -> NoDup (map id (came s')).
Proof. intros s s' P. apply Permutation_NoDup, Permutation_map. now symmetry. Qed.

Lemma held_app : forall n l l', held_rows n (l ++ l') = held_rows n l ++ held_rows n l'.
Proof. intros. unfold held_rows. now rewrite filter_app, map_app. Qed.

Lemma held_tag : forall n b l, held_rows n (tag b l) = map (fun e => (id b, e)) (rows_of n l).
Proof.
  intros n b. unfold held_rows, tag, rows_of. induction l as [|[k e] l IH]; cbn; [reflexivity|].
  destruct (k =? n); cbn; rewrite IH; reflexivity.
Qed.

Lemma own_rows_late : forall b n, closing_time n <= head b -> rows_of n (own_rows b) = [].
Proof.
  intros b n C. apply rows_of_none. intros k e K. apply judge_from in K. cbn in K.
  destruct (Z.le_gt_cases (first_open (head b)) n) as [O|O]; [|lia]. apply before_closing in O. lia.
Qed.

Lemma moves_sound : forall x s s', sound s -> moves x s = Some s' -> sound s'.
Proof.
  intros x s s' [Ids Un Re Se Ma Op Ta Cl] E.
  destruct x as [b|n|now|n|n|n| |m|n|]; cbn [moves] in E.
  - destruct (Z.leb_spec (seen s) (head b)) as [L|]; [|discriminate]. cbn [andb] in E.
    destruct (forallb _ _) eqn:F; [|discriminate]. injection E as <-. constructor; cbn; auto.
    + unfold came in *. cbn [unread receipts stored refused]. rewrite <- app_assoc. cbn [app].
      apply (Permutation_NoDup (l := map id (b :: (unread s ++ map fst (receipts s) ++ stored s ++ refused s)))).
      * apply Permutation_map. symmetry. apply Permutation_sym, Permutation_middle.
      * cbn. constructor; [|assumption]. intros I. apply in_map_iff in I as [c [E I]]. rewrite forallb_forall in F.
        specialize (F c I). apply negb_true_iff in F. apply Z.eqb_neq in F. contradiction.
    + intros c I. apply in_app_or in I as [I|[<-|[]]]; auto.
  - destruct (find n (unread s)) as [[b rest]|] eqn:F; [|discriminate]. injection E as <-.
    apply find_spec in F. assert (Hb : seen s <= head b) by (apply Un; rewrite F; now left).
    constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto.
    + eapply ids_moved; [|exact Ids]. unfold came. cbn [unread receipts stored refused]. rewrite map_app. cbn [map fst].
      rewrite F. rewrite <- !app_assoc. cbn [app].
      rewrite (Permutation_app_comm (map fst (receipts s))). cbn [app].
      etransitivity; [symmetry; apply Permutation_middle|]. constructor. apply Permutation_app_head.
      rewrite (Permutation_app_comm (map fst (receipts s))). reflexivity.
    + intros c I. apply Un. rewrite F. now right.
    + intros c k I. apply in_app_or in I as [I|[I|[]]]; [auto|]. injection I as <- <-. lia.
    + intros k K. destruct (Op k K) as [O1 O2]. split; [assumption|]. intros c j I.
      apply in_app_or in I as [I|[I|[]]]; [eauto|]. injection I as <- <-. lia.
  - destruct (forallb _ _) eqn:F; [|discriminate]. injection E as <-. rewrite forallb_forall in F.
    constructor; cbn; auto; try lia.
    + intros b I. specialize (F b I). apply Z.leb_le in F. specialize (Un b I). lia.
    + intros n N. destruct (Op n N). split; [lia|assumption].
  - destruct (find_receipt n (receipts s)) as [[[b m] rest]|] eqn:F; [|discriminate]. injection E as <-.
    apply find_receipt_spec in F. assert (I : In (b, m) (receipts s)) by (rewrite F; now left).
    pose proof (Re b m I) as ->.
    assert (W : batch_window (made s) (head b) (ended b) = batch_window start (head b) (ended b)).
    { unfold batch_window. f_equal. destruct (Z.eq_dec (upcoming s) start) as [U|U]; [lia|].
      destruct (Op (upcoming s - 1) ltac:(lia)) as [_ O]. specialize (O b (head b) I).
      destruct (Z.le_gt_cases (first_open (head b)) (upcoming s - 1)) as [Q|Q]; [apply before_closing in Q; lia|lia]. }
    constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto.
    + eapply ids_moved; [|exact Ids]. unfold came. cbn [unread receipts stored refused].
      rewrite F. cbn [map fst]. apply Permutation_app_head. cbn [app]. rewrite <- !app_assoc. cbn [app].
      rewrite (app_assoc (map fst rest)). etransitivity; [symmetry; apply Permutation_middle|].
      rewrite <- app_assoc. reflexivity.
    + intros c k J. apply Re. rewrite F. now right.
    + intros k K. destruct (Op k K) as [O1 O2]. split; [assumption|]. intros c j J. apply (O2 c j). rewrite F. now right.
    + rewrite flat_map_app, Ta. cbn. rewrite app_nil_r. unfold own_rows. now rewrite W.
    + intros k l J. destruct (Cl k l J) as [K ->]. split; [assumption|].
      rewrite held_app, held_tag, W. fold (own_rows b). destruct (Op k K) as [_ O]. specialize (O b (head b) I).
      rewrite own_rows_late by assumption. now rewrite app_nil_r.
  - destruct (find_receipt n (receipts s)) as [[[b m] rest]|] eqn:F; [|discriminate]. injection E as <-.
    apply find_receipt_spec in F.
    constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto.
    + eapply ids_moved; [|exact Ids]. unfold came. cbn [unread receipts stored refused].
      rewrite F. cbn [map fst]. apply Permutation_app_head. cbn [app]. rewrite !app_assoc.
      etransitivity; [apply Permutation_app_comm|]. cbn [app]. rewrite <- !app_assoc. reflexivity.
    + intros c k J. apply Re. rewrite F. now right.
    + intros k K. destruct (Op k K) as [O1 O2]. split; [assumption|]. intros c j J. apply (O2 c j). rewrite F. now right.
  - destruct (find_receipt n (receipts s)) as [[[b m] rest]|] eqn:F; [|discriminate]. injection E as <-.
    apply find_receipt_spec in F.
    constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto.
    + eapply ids_moved; [|exact Ids]. unfold came. cbn [unread receipts stored refused].
      rewrite F. cbn [map fst]. apply Permutation_app_head. cbn [app]. rewrite !app_assoc.
      etransitivity; [apply Permutation_app_comm|]. cbn [app]. rewrite <- !app_assoc. reflexivity.
    + intros c k J. apply Re. rewrite F. now right.
    + intros k K. destruct (Op k K) as [O1 O2]. split; [assumption|]. intros c j J. apply (O2 c j). rewrite F. now right.
  - destruct (Z.ltb_spec (seen s) (closing_time (upcoming s))) as [|L]; [discriminate|].
    destruct (forallb _ _) eqn:F; injection E as <-.
    + rewrite forallb_forall in F.
      constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto; try lia.
      * intros n N. destruct (Z.eq_dec n (upcoming s)) as [->|D].
        -- split; [lia|]. intros b m I. specialize (F (b, m) I). now apply Z.leb_le in F.
        -- apply Op. lia.
      * intros n l [I|I]; [injection I as <- <-; split; [lia|reflexivity]|]. destruct (Cl n l I). split; [lia|assumption].
    + constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto; lia.
  - destruct (Z.ltb_spec (seen s) m) as [|L]; [discriminate|]. injection E as <-.
    constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto; lia.
  - destruct (find_receipt n (receipts s)) as [[[b m] rest]|]; [|discriminate]. injection E as <-.
    constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto.
  - destruct (used s); [|discriminate]. injection E as <-.
    constructor; cbn [unread receipts stored refused closed seen made table upcoming closings]; auto; lia.
Qed.

Lemma reachable_sound : forall s, reachable s -> sound s.
Proof. induction 1; [apply sound_nothing|eapply moves_sound; eassumption]. Qed.

(** A receipt has the moment at which the head arrived, however late it is read. *)
Theorem a_head_counts_by_its_arrival : forall s b m, reachable s -> In (b, m) (receipts s) -> m = head b.
Proof. intros s b m R. exact (s_receipts s (reachable_sound s R) b m). Qed.

Definition of_batch (b : batch) (l : list (Z * event)) : list event := map snd (filter (fun r => fst r =? id b) l).

Lemma of_batch_app : forall b l l', of_batch b (l ++ l') = of_batch b l ++ of_batch b l'.
Proof. intros. unfold of_batch. now rewrite filter_app, map_app. Qed.

Lemma of_batch_tag : forall b c l, of_batch b (map (fun e => (id c, e)) l) = if id c =? id b then l else [].
Proof.
  intros b c. unfold of_batch. induction l as [|e l IH]; cbn; [destruct (id c =? id b); reflexivity|].
  destruct (id c =? id b); cbn; rewrite ?IH; reflexivity.
Qed.

Lemma of_table : forall n b l, NoDup (map id l) ->
  of_batch b (held_rows n (flat_map (fun c => tag c (own_rows c)) l)) =
  match find (id b) l with Some (c, _) => rows_of n (own_rows c) | None => [] end.
Proof.
  intros n b. induction l as [|c l IH]; intros N; cbn [flat_map find]; [reflexivity|].
  inversion N as [|? ? N1 N2]; subst. rewrite held_app, of_batch_app, held_tag, of_batch_tag, IH by assumption.
  destruct (Z.eqb_spec (id c) (id b)) as [E|E].
  - assert (F : find (id b) l = None).
    { destruct (find (id b) l) as [[d r]|] eqn:F; [|reflexivity]. exfalso. apply N1. rewrite E.
      assert (I : id d = id b).
      { clear -F. revert r F. induction l as [|x l IH]; intros r F; cbn in F; [discriminate|].
        destruct (Z.eqb_spec (id x) (id b)); [injection F as -> _; assumption|].
        destruct (find (id b) l) as [[y r']|]; [|discriminate]. injection F as -> _. now apply (IH r'). }
      rewrite <- I. apply in_map. apply find_spec in F. rewrite F. now left. }
    rewrite F. apply app_nil_r.
  - cbn. destruct (find (id b) l) as [[d r]|]; reflexivity.
Qed.

Lemma find_here : forall b l, In b l -> NoDup (map id l) -> exists rest, find (id b) l = Some (b, rest).
Proof.
  intros b. induction l as [|c l IH]; intros I N; [destruct I|]. cbn. inversion N as [|? ? N1 N2]; subst.
  destruct (Z.eqb_spec (id c) (id b)) as [E|E].
  - destruct I as [->|I]; [eauto|]. exfalso. apply N1. rewrite E. now apply in_map.
  - destruct I as [->|I]; [contradiction|]. destruct (IH I N2) as [r ->]. eauto.
Qed.

Lemma find_not : forall b l, ~ In (id b) (map id l) -> find (id b) l = None.
Proof.
  intros b. induction l as [|c l IH]; intros N; cbn; [reflexivity|]. destruct (Z.eqb_spec (id c) (id b)) as [E|E].
  - exfalso. apply N. left. exact E.
  - rewrite IH; [reflexivity|]. intros I. apply N. now right.
Qed.

Lemma parts_differ : forall (l l' : list Z), NoDup (l ++ l') -> NoDup l /\ NoDup l' /\ forall x, In x l -> ~ In x l'.
Proof.
  induction l as [|x l IH]; intros l' N; cbn in *; [repeat split; auto; constructor|].
  inversion N as [|? ? N1 N2]; subst. destruct (IH l' N2) as (A & B & C). repeat split; [|assumption|].
  - constructor; [|assumption]. intros I. apply N1, in_or_app. now left.
  - intros y [<-|I]; [intros J; apply N1, in_or_app; now right|auto].
Qed.

(** What a closed slot holds of a batch that was not refused is a function of that batch alone. *)
Theorem batch_alone : forall s n l b, reachable s -> In (n, l) (closings s) -> In b (came s) -> ~ In b (refused s) ->
  of_batch b l = rows_of n (own_rows b).
Proof.
  intros s n l b R I C N. pose proof (reachable_sound s R) as S. destruct (s_closings s S n l I) as [K ->].
  rewrite (s_table s S). pose proof (s_ids s S) as Ids. unfold came in *.
  assert (P : NoDup (map id (stored s))).
  { rewrite !map_app in Ids. destruct (parts_differ _ _ Ids) as (_ & A & _). destruct (parts_differ _ _ A) as (_ & B & _).
    apply (parts_differ _ _ B). }
  rewrite of_table by exact P. destruct (s_open s S n K) as [O1 O2].
  assert (D : In b (stored s) \/ (In b (unread s ++ map fst (receipts s)) /\ closing_time n <= head b)).
  { apply in_app_or in C as [C|C]; [right; split; [apply in_or_app; now left|]; specialize (s_unread s S b C); lia|].
    apply in_app_or in C as [C|C].
    - right. split; [apply in_or_app; now right|]. apply in_map_iff in C as [[c m] [E C]]. cbn in E. subst c.
      rewrite <- (s_receipts s S b m C). now apply (O2 b m).
    - left. apply in_app_or in C as [C|C]; [assumption|contradiction]. }
  destruct D as [D|[D L]].
  - destruct (find_here b (stored s) D P) as [r ->]. reflexivity.
  - rewrite own_rows_late by assumption. rewrite find_not; [reflexivity|]. intros J.
    rewrite app_assoc, map_app in Ids. apply (in_map id) in D.
    apply (proj2 (proj2 (parts_differ _ _ Ids)) _ D). rewrite map_app. apply in_or_app. now left.
Qed.

(** With and without [u]: a batch of the same moments that lacks the events of [u] puts the same rows of others into a
    slot, whatever else comes in either run. *)
Theorem others_batches_alone : forall u s s' n l l' b b', reachable s -> reachable s' ->
  In (n, l) (closings s) -> In (n, l') (closings s') ->
  In b (came s) -> ~ In b (refused s) -> In b' (came s') -> ~ In b' (refused s') ->
  head b = head b' -> ended b = ended b' -> others u (events b) = events b' ->
  others u (of_batch b l) = of_batch b' l'.
Proof.
  intros u s s' n l l' b b' R R' I I' C N C' N' H E O.
  rewrite (batch_alone s n l b R I C N), (batch_alone s' n l' b' R' I' C' N'), rows_of_others.
  unfold own_rows. rewrite judge_others, O, H, E. reflexivity.
Qed.

End Doors.

(** Slots of fixed width are intervals. *)
Lemma fixed_intervals : forall origin width late, 0 < width ->
  forall t n, t < begins (fixed origin width late) n <-> slot_at (fixed origin width late) t < n.
Proof.
  intros origin width late W t n. cbn. pose proof (Z.div_mod (t - origin) width ltac:(lia)).
  pose proof (Z.mod_pos_bound (t - origin) width W). split; intros; nia.
Qed.
