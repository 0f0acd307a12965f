(* Plays scripts of what happens at a door through the extracted model of admission. The first line is the grid, the next
   ones are what happens; after each, a line says whether it was possible, and what is public and private afterwards. *)

open Admission

let big = Big_int_Z.big_int_of_string
let said = Big_int_Z.string_of_big_int
let maybe word = if word = "-" then None else Some (big word)
let number = function None -> "-" | Some x -> said x

(* Slots of a calendar: when each begins, from the first on. *)
let calendar first begins late =
  let first = Big_int_Z.int_of_big_int first and begins = Array.of_list begins in
  let begin_of n = begins.(Big_int_Z.int_of_big_int n - first) in
  let rec search low high m =               (* begins.(low) <= m < begins.(high) *)
    if high - low <= 1 then low
    else let middle = (low + high) / 2 in
      if Big_int_Z.le_big_int begins.(middle) m then search middle high m else search low middle m in
  { slot_at = (fun m -> Big_int_Z.big_int_of_int (first + search 0 (Array.length begins) m)); begins = begin_of;
    lateness = late }

let read_event user time bin stamp =
  { user = maybe user; time = maybe time; bin = maybe bin;
    stamped = (match stamp with "none" -> NoStamp | "-" -> Unreadable | m -> Stamp (big m)) }

let rec read_events words =
  match words with
  | user :: time :: bin :: stamp :: rest -> read_event user time bin stamp :: read_events rest
  | [] -> []
  | _ -> failwith "no event"

(* A row by what names its event: the numbers of bins are all different. *)
let row (slot, event) = said slot ^ ":" ^ number event.bin

let follower grid start =
  let state = ref (nobody start) in
  fun words ->
    let happening = match words with
      | [ "A"; user; time; bin; stamp ] -> Arrive (read_event user time bin stamp)
      | [ "L"; clock; answered; always ] -> Look (big clock, answered = "1", always = "1")
      | [ "S" ] -> Restart
      | [ "R" ] -> Read
      | [ "C" ] -> Close
      | _ -> failwith "no happening" in
    let possible = match happens grid happening !state with
      | Some after -> state := after; "1"
      | None -> "0" in
    let now = !state in
    let marks = List.map (fun mark -> said mark.moment ^ ":" ^ said mark.limit) now.queue in
    let released = match now.released with
      | (slot, rows) :: _ -> said slot ^ "=" ^ String.concat "," (List.map (fun e -> number e.bin) rows)
      | [] -> "-" in
    [ possible; number now.noted; number now.reached; said now.next; released; String.concat "," marks;
      String.concat "," (List.map row now.kept) ]

let door grid start =
  let state = ref (nothing_came start) in
  fun words ->
    let motion = match words with
      | "B" :: id :: head :: ended :: events ->
          Comes { id = big id; head = big head; ended = big ended; events = read_events events }
      | [ "T"; id ] -> Takes (big id)
      | [ "L"; now ] -> Looks (big now)
      | [ "K"; id ] -> Keeps (big id)
      | [ "N"; id ] -> Refuses (big id)
      | [ "V"; id ] -> Leaves (big id)
      | [ "C" ] -> Closes
      | [ "O"; moment ] -> Others (big moment)
      | [ "U"; id ] -> Uses (big id)
      | [ "W" ] -> Renews
      | _ -> failwith "no motion" in
    let before = !state.upcoming in
    let possible = match moves grid motion !state with
      | Some after -> state := after; if words = [ "C" ] && after.upcoming = before then "0" else "1"
      | None -> "0" in
    let now = !state in
    let receipts = List.map (fun (batch, moment) -> said batch.id ^ ":" ^ said moment) now.receipts in
    let closed = match now.closings with
      | (slot, rows) :: _ -> said slot ^ "=" ^ String.concat "," (List.map (fun (_, e) -> number e.bin) rows)
      | [] -> "-" in
    [ possible; said now.closed; said now.seen; said now.upcoming; String.concat "," receipts; closed; "";
      String.concat "," (List.map (fun (_, r) -> row r) now.table) ]

let () =
  let play = match String.split_on_char ' ' (input_line stdin) with
    | "follower" :: start :: "fixed" :: origin :: width :: late :: [] ->
        follower (fixed (big origin) (big width) (big late)) (big start)
    | "follower" :: start :: "calendar" :: first :: late :: begins ->
        follower (calendar (big first) (List.map big begins) (big late)) (big start)
    | "door" :: start :: "fixed" :: origin :: width :: late :: [] ->
        door (fixed (big origin) (big width) (big late)) (big start)
    | "door" :: start :: "calendar" :: first :: late :: begins ->
        door (calendar (big first) (List.map big begins) (big late)) (big start)
    | _ -> failwith "no grid" in
  try
    while true do
      print_endline (String.concat " " (play (String.split_on_char ' ' (input_line stdin))))
    done
  with End_of_file -> ()
