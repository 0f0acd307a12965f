(* Plays lives of many users through the extracted ledger, line by line; answers are whole numbers of 64 bits. To an action:
   of each user grains and debit, or -1 twice where it is refused. To "E epoch streams": of each user what is left, what all
   debits and losses of the epoch are, and of each stream what was spent in how many payments. To "U epoch streams": what is
   public, of each stream its last slot, what it was billed, where copies went on, and the largest shares. To "T number":
   whether a copy would go on. *)

let big = Big_int_Z.big_int_of_string
let out = Buffer.create (1 lsl 20)
let put number = Buffer.add_int64_le out number
let put_big number = put (Big_int_Z.int64_of_big_int number)

let read_config words =
  match words with
  | epsilon :: top :: period :: assigned :: users :: policy ->
      let table = Array.of_list (List.map big policy) in
      let grains active =
        table.(min (Big_int_Z.int_of_big_int active) (Array.length table - 1)) in
      ( { Ledger.epsilon = big epsilon; top = big top; period = big period; policy = grains;
          by_class = (fun stream -> Big_int_Z.int_of_big_int stream land 1 = 0) },
        Array.make (int_of_string users) (Ledger.start (big assigned)) )
  | _ -> failwith "no configuration"

let rec read_classes number words =
  if number = 0 then ([], words)
  else match words with
    | m :: steps :: rest ->
        let classes, rest = read_classes (number - 1) rest in
        ((big m, big steps) :: classes, rest)
    | _ -> failwith "no class"

let rec read_groups number words =
  if number = 0 then ([], words)
  else match words with
    | price :: size :: rest ->
        let classes, rest = read_classes (int_of_string size) rest in
        let groups, rest = read_groups (number - 1) rest in
        ((big price, classes) :: groups, rest)
    | _ -> failwith "no group"

(* The action of each user: they differ in who is there alone. *)
let read_action words =
  match words with
  | [ "P"; stream; slot; e; num; den; whole; bits ] ->
      fun user -> Ledger.PayPolicy (big stream, big slot, big e, big num, big den, whole = "1", bits.[user] = '1')
  | "C" :: stream :: slot :: whole :: number :: rest ->
      let groups, rest = read_groups (int_of_string number) rest in
      let bits = List.hd rest in
      fun user -> Ledger.PayClass (big stream, big slot, groups, whole = "1", bits.[user] = '1')
  | [ "L"; slot; units ] -> fun _ -> Ledger.Levy (big slot, big units)
  | [ "A"; units; bound ] -> fun _ -> Ledger.Assign (big units, big bound)
  | [ "K" ] -> fun _ -> Ledger.Copy
  | [ "R"; number ] -> fun _ -> Ledger.Restore (int_of_string number)
  | _ -> failwith "no action"

(* What was paid and lost in an epoch: of every payment, on whatever branch. Losses are counted in units, rounded up. *)
let paid_in epoch (state : Ledger.state) =
  List.fold_left (fun (debits, losses) ((k, debit), loss) ->
      if Big_int_Z.eq_big_int k epoch then (Big_int_Z.add_big_int debits debit, Big_int_Z.add_big_int losses loss)
      else (debits, losses)) (Big_int_Z.zero_big_int, Big_int_Z.zero_big_int) state.paid
let in_units losses =
  Big_int_Z.div_big_int (Big_int_Z.add_big_int losses (Big_int_Z.pred_big_int Ledger.gRAINS)) Ledger.gRAINS

let put_standing config epoch streams (state : Ledger.state) =
  put_big (Ledger.left_at config state.now epoch);
  let debits, losses = paid_in epoch state in
  put_big debits; put_big (in_units losses);
  List.iter (fun stream ->
      let own = Ledger.view epoch (Ledger.get Ledger.zero stream state.now.own) in
      put_big own.spent; put_big own.active) streams

let put_public (config : Ledger.config) epoch streams (state : Ledger.state) =
  let zero = Big_int_Z.zero_big_int in
  put_big state.now.assigned;
  put_big (Ledger.levied epoch state.now.levies);
  List.iter (fun stream ->
      put_big (if Ledger.has stream state.now.slots then Ledger.get zero stream state.now.slots else big "-9999999");
      put_big (Ledger.get zero stream state.seen.billed);
      let marks = List.sort_uniq Big_int_Z.compare_big_int 
          (if config.by_class stream then Ledger.get [] stream state.seen.restored else []) in
      put (Int64.of_int (List.length marks)); List.iter put_big marks;
      for m = 0 to Big_int_Z.int_of_big_int config.top do
        put_big (Ledger.share_of state.seen stream (Big_int_Z.big_int_of_int m))
      done) streams

let () =
  set_binary_mode_out stdout true;
  let config, states = read_config (String.split_on_char ' ' (input_line stdin)) in
  try
    while true do
      let words = String.split_on_char ' ' (input_line stdin) in
      (match words with
       | "E" :: epoch :: streams -> Array.iter (put_standing config (big epoch) (List.map big streams)) states
       | "U" :: epoch :: streams -> put_public config (big epoch) (List.map big streams) states.(0)
       | [ "T"; number ] ->
           put (match Ledger.step config states.(0) (Ledger.Restore (int_of_string number)) with Some _ -> 1L | None -> 0L)
       | _ ->
           let action = read_action words in
           Array.iteri (fun user state ->
               match Ledger.step config state (action user) with
               | None -> put (-1L); put (-1L)
               | Some (after, (grains, cost)) -> states.(user) <- after; put_big grains; put_big cost) states);
      if Buffer.length out > 1 lsl 20 then (Buffer.output_buffer stdout out; Buffer.clear out)
    done
  with End_of_file -> Buffer.output_buffer stdout out
