import { isWanted, type SeenEvent } from "../events-reference.ts";
import type { History } from "./events-history.ts";
import { urlOf, type Visit } from "./events-visit.ts";

/** The data about writes for a check. */
export interface Facts {
  readonly history: History;
  /** The newest index among the first so many writes of rights; 0 when none of them is on the stream. */
  newestOf(sent: number): number;
  /** When the write of a line was sent; -Infinity when no client sent it. */
  sentAt(index: number): number;
  /** The number of lines in the buffer. */
  readonly bufferLines: number;
  /** The expiry of a token. */
  expires(accessor: string | null): number;
}

const text = (event: SeenEvent): string => JSON.stringify(event);

/** Describes the faults in the lines that a reader received in one visit. */
export function faultsOf(visit: Visit, facts: Facts): string[] {
  const { history } = facts;
  const { accessor, wish, begun, status } = visit;
  const faults = visit.broken.map((what) => `broken: ${what}`);
  const until = facts.newestOf(visit.ended.sent);
  const expires = facts.expires(accessor);
  const may = history.mayOpen(accessor, wish);
  const deniable = !may.every(begun.known, facts.newestOf(visit.answered.sent)) || visit.answered.time >= expires;
  if (status === 403 && !deniable) faults.push("refused although it may");
  if (status === 200 && (!may.some(begun.known, facts.newestOf(visit.answered.sent)) || begun.time > expires)) {
    faults.push("opened although it may not");
  }
  if (![0, 200, 403].includes(status)) faults.push(`answered with ${status}`);
  if (status === 200) {
    faults.push(...orderFaults(visit), ...lineFaults(visit, facts, until), ...endFaults(visit, facts, until));
  }
  const { format, from, oldest, first, reached, end } = visit;
  const seen = `${format} from ${from}, oldest ${oldest}, first ${first}, reached ${reached}, ${end}`;
  return faults.map((fault) => `${urlOf(visit)} of ${accessor}, ${seen}: ${fault}`);
}

function orderFaults({ lines, from, begun, error }: Visit): string[] {
  const faults: string[] = [];
  let before = from < 0 ? begun.known : Math.max(0, from - 1);
  for (const { Index, Events } of lines) {
    if (Index <= before) faults.push(`line ${Index} after ${before}`);
    if (Events.some((event) => event.Index !== Index)) faults.push(`line ${Index} with an event of another index`);
    before = Index;
  }
  const last = lines.at(-1)?.Index ?? 0;
  if (error && error.LastIndex < last) faults.push(`told of ${error.LastIndex} as the last line after ${last}`);
  return faults;
}

/** Compares each line with the complete one: required events, and permitted ones. */
function lineFaults(visit: Visit, facts: Facts, until: number): string[] {
  const { history } = facts;
  const { accessor, wish, begun } = visit;
  const faults: string[] = [];
  const got = new Map(visit.lines.map((line) => [line.Index, line]));
  const asked = visit.from >= 0 ? visit.from : (visit.first ?? visit.reached) + 1;
  const start = Math.max(1, asked, visit.oldest);
  for (const { Index } of visit.lines) {
    if (Index > history.newest) faults.push(`line ${Index}, which a crash took back`);
    if (facts.sentAt(Index) > facts.expires(accessor)) faults.push(`line ${Index}, written after the token ended`);
  }
  for (let index = Math.min(start, ...got.keys()); index <= Math.min(visit.reached, history.newest); index++) {
    const line = got.get(index);
    const events = [...(line?.Events ?? [])];
    for (const event of history.line(index)?.Events ?? []) {
      const wanted = isWanted(event, wish);
      const right = history.mayRead(accessor, wish, event);
      const from = Math.max(index, begun.known);
      const here = events[0] !== undefined && text(events[0]) === text(event);
      if (here) events.shift();
      const what = `${event.Topic} ${event.Key} of ${event.Namespace || "no namespace"} in line ${index}`;
      if (here && !wanted) faults.push(`not asked for: ${what}`);
      if (here && line && !right.some(from, facts.newestOf(line.at.sent))) faults.push(`not allowed: ${what}`);
      if (!here && wanted && index >= start && right.every(from, until)) faults.push(`lost: ${what}`);
    }
    for (const event of events) faults.push(`not on the stream, doubled or out of order: ${text(event).slice(0, 200)}`);
  }
  return faults;
}

/** The number of lines that may follow the newest confirmed one, and that a full buffer removes in advance. */
const UNTOLD = 20;

function endFaults(visit: Visit, facts: Facts, until: number): string[] {
  const { error, errors, end, accessor, wish, begun, ended, base } = visit;
  const may = facts.history.mayOpen(accessor, wish);
  const deniable = !may.every(begun.known, until) || ended.time >= facts.expires(accessor);
  if (error && !errors) return ["an error line that nobody asked for"];
  if (error && !["slow_consumer", "permission_denied"].includes(error.Code)) return [`cut because of ${error.Code}`];
  if (error?.Code === "permission_denied" && !deniable) return ["cut although it may read"];
  if (end !== "over" || ended.base !== base || error) return [];
  if (errors) return ["ended without the last line that was asked for"];
  // A stream ends while its service runs when it may no longer be read, or its next line has left the buffer.
  const behind = ended.known - visit.reached > facts.bufferLines - UNTOLD;
  return deniable || behind ? [] : ["ended although it may read"];
}
