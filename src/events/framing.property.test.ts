import { describe, expect, it } from "vitest";
import { randomFrom } from "../../test/crash/random.ts";
import { EventSourceParser, type SourceEvent } from "../../test/event-source.ts";
import { amount, PROPERTY } from "../../test/support/long.ts";
import type { NewEvent } from "../contracts/event.ts";
import { numbered } from "../publishing/numbered-events.ts";
import { framingOf } from "./framing.ts";
import { Line } from "./line.ts";
import { matcher } from "./subscription.ts";

/* Streams of random text, written in each form and read by a parser of that form, cut into pieces anywhere. */

const seed = Number(process.env["EVENTS_SEED"] ?? Date.now() % 1_000_000);
const STREAMS = amount(200, 400);
const random = randomFrom(seed);
const below = (most: number): number => Math.floor(random() * most);

/** Terminators of lines, fields or texts, and all other characters. */
const ODD = [
  "\n",
  "\r",
  "\r\n",
  "\n\n",
  "data: ",
  "id: 7\n",
  "event: x",
  ":",
  "retry: 1",
  "\u2028",
  "\u2029",
  "\u0085",
];
const MORE = [
  "\u0000",
  "\ufeff",
  '"',
  "\\",
  "\\n",
  "{}",
  "[]",
  ",",
  "\ud800",
  "\udc00",
  "😀",
  "é",
  " ",
  "\t",
  "\u001b[2J",
];
function text(): string {
  let made = "";
  for (let length = below(12); length > 0; length--) {
    const dice = random();
    if (dice < 0.5) made += ODD[below(ODD.length)];
    else if (dice < 0.8) made += MORE[below(MORE.length)];
    else made += String.fromCharCode(below(0x1_0000));
  }
  return made;
}

const event = (): NewEvent => ({
  Topic: text(),
  Type: text(),
  Key: text(),
  Namespace: text(),
  FilterKeys: random() < 0.5 ? null : [text(), text()],
  Payload: { [text()]: { ID: text(), [text()]: [text(), null, { [text()]: 1.5 }] } },
});

const everything = matcher({ topics: { "*": ["*"] }, namespaces: null, rules: null });

/** Lines with growing indexes; those without events are heartbeats. */
function stream() {
  let index = below(3);
  return Array.from({ length: 1 + below(5) }, () => {
    index += 1 + below(4);
    const events = Array.from({ length: below(4) }, event);
    return { index, events, line: Line.of(index, numbered(events, index)) };
  });
}

/** The stream as bytes, in pieces that may cut anything, a character too. */
function* pieces(written: string): Iterable<string> {
  const bytes = new TextEncoder().encode(written);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
  for (let at = 0; at < bytes.length; ) {
    const next = at + 1 + below(40);
    yield decoder.decode(bytes.subarray(at, next), { stream: true });
    at = next;
  }
}

const wellFormed = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe(`framing of random lines (EVENTS_SEED=${seed})`, () => {
  it("has the same content as server-sent events and as JSON lines, with the index as the event id", PROPERTY, () => {
    const [plain, sent] = [
      framingOf({ format: "lines", dialect: "neutral" }),
      framingOf({ format: "server-sent-events", dialect: "neutral" }),
    ];
    for (let round = 0; round < STREAMS; round++) {
      const lines = stream();
      const write = (framing: typeof plain) =>
        (framing.greeting ?? "") +
        lines
          .map(({ index, line }) => {
            const events = line.textFor(everything, null);
            return events === null ? framing.heartbeat(index) : framing.line(index, events);
          })
          .join("");
      const written = write(plain);
      expect(written.endsWith("\n")).toBe(true);
      const objects = written
        .slice(0, -1)
        .split("\n")
        .map((each) => JSON.parse(each));
      expect(objects).toEqual(
        lines.map(({ index, events }) => ({ Index: index, Events: wellFormed(numbered(events, index)) })),
      );
      const parser = new EventSourceParser();
      const got: SourceEvent[] = [];
      for (const piece of pieces(write(sent))) got.push(...parser.feed(piece));
      const told = objects.filter(({ Events }) => Events.length > 0);
      expect(got.map(({ data }) => JSON.parse(data))).toEqual(told);
      expect(got.map(({ type, lastEventId }) => [type, lastEventId])).toEqual(
        told.map(({ Index }) => ["message", String(Index)]),
      );
      // A heartbeat fires nothing, yet moves the point from which a browser goes on.
      expect(parser.lastEventId).toBe(String(lines.at(-1)?.index));
      expect(parser.retry).toBe(2_000);
    }
  });

  it("ends a cut stream with an error object, which is an event named error in server-sent events", () => {
    const error = '{"Error":{"Code":"slow_consumer","LastIndex":7}}';
    expect(framingOf({ format: "lines", dialect: "neutral" }).lastLine(error)).toBe(`${error}\n`);
    const parser = new EventSourceParser();
    const framing = framingOf({ format: "server-sent-events", dialect: "neutral" });
    const fired = parser.feed(framing.line(7, "[{}]") + framing.lastLine(error));
    expect(fired.map(({ type, data }) => [type, data])).toEqual([
      ["message", '{"Index":7,"Events":[{}]}'],
      ["error", error],
    ]);
    expect(parser.lastEventId).toBe("7");
  });
});

/** So that the parser itself can be trusted: the examples of the standard (WHATWG HTML 9.2.6). */
it.each([
  ["data: YHOO\ndata: +2\ndata: 10\n\n", [["message", "YHOO\n+2\n10", ""]]],
  [
    ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
    [
      ["message", "first event", "1"],
      ["message", "second event", ""],
      ["message", " third event", ""],
    ],
  ],
  [
    "data\n\ndata\ndata\n\ndata:",
    [
      ["message", "", ""],
      ["message", "\n", ""],
    ],
  ],
  ["data:test\r\n\r\ndata: test\r\r", [["message", "test", ""]]],
  ["event: add\rdata: 73857293\n\nretry: 5x\nid: a\0b\n\n", [["add", "73857293", ""]]],
])("the parser of this test reads %j by the standard", (written, events) => {
  const parser = new EventSourceParser();
  const got = [...written].flatMap((character) => parser.feed(character));
  expect(got.map(({ type, data, lastEventId }) => [type, data, lastEventId])).toEqual(events);
});
