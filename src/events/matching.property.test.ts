import { describe, expect, it } from "vitest";
import { randomFrom } from "../../test/crash/random.ts";
import { isWanted, mayRead, type Rules, type SeenEvent, type Wish } from "../../test/events-reference.ts";
import { amount, PROPERTY } from "../../test/support/long.ts";
import type { NamespaceRule } from "../contracts/cluster-rights.ts";
import { headersText } from "../publishing/event-headers.ts";
import { numbered } from "../publishing/numbered-events.ts";
import { Line } from "./line.ts";
import { matcher, parseTopics } from "./subscription.ts";

/**
 * Filters against a second evaluator (test/events-reference.ts), on random subscriptions and events. Repeat with
 * EVENTS_SEED.
 */

const seed = Number(process.env["EVENTS_SEED"] ?? Date.now() % 1_000_000);
const SUBSCRIPTIONS = amount(1_000, 4_000);
const EVENTS = 12;

const random = randomFrom(seed);
const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
const many = <T>(most: number, make: () => T): T[] => Array.from({ length: Math.floor(random() * (most + 1)) }, make);

const TOPICS = ["Job", "Allocation", "Evaluation", "Deployment", "Node", "NodeDrain", "ACLToken", "ACLPolicy"];
/** Names that look like something else, or hold what JSON, SQL or queries write in other ways. */
const ODD = ["", "*", "web", "we", "web ", "WEB", "__proto__", "constructor", 'a"b', "a\\b", "[]", ",", "a,b", "null"];
const UNICODE = ["é", "e\u0301", "日本", "\u2028", "\u0000", "\u007f", "😀", "%", "%25", "&=+#", "\t"];
const NAMES = [...ODD, ...UNICODE, ...TOPICS];
const NAMESPACES = ["default", "prod", "test", ""];

const event = (): Omit<SeenEvent, "Index"> => {
  const Topic = random() < 0.05 ? pick(NAMES.filter((name) => name !== "*")) : pick(TOPICS);
  return {
    Topic,
    Type: "T",
    Key: pick(NAMES),
    Namespace: pick(NAMESPACES),
    FilterKeys: random() < 0.4 ? null : many(3, () => pick(NAMES)),
    Payload: { Job: { ID: pick(NAMES), Note: pick(NAMES) } },
  };
};

/** A wish, and the values of the query that say it. */
function wishAndValues(): { wish: Wish; values: string[] } {
  const pairs = many(4, (): [string, string] => [pick(random() < 0.2 ? NAMES : [...TOPICS, "*"]), pick(NAMES)]);
  const values = pairs.map(([topic, key]) => (key === "*" && random() < 0.5 ? topic : `${topic}:${key}`));
  const topics = pairs.length === 0 ? ([["*", "*"]] as const) : pairs;
  return { wish: { topics, namespace: pick(["*", "default", "prod", "nowhere"]) }, values };
}

function topicsOf(values: readonly string[]) {
  const parsed = parseTopics(new URLSearchParams(values.map((value) => ["topic", value])).getAll("topic"));
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.topics;
}

describe(`random subscriptions (EVENTS_SEED=${seed})`, () => {
  it("select the same events as the reference implementation, from memory and from disk", PROPERTY, () => {
    let wanted = 0;
    for (let round = 0; round < SUBSCRIPTIONS; round++) {
      const { wish, values } = wishAndValues();
      const namespaces = wish.namespace === "*" ? null : [wish.namespace];
      const asked = matcher({ topics: topicsOf(values), namespaces, rules: null });
      const events = numbered(many(EVENTS, event), 7);
      const expected = events.filter((each) => isWanted(each, wish));
      wanted += expected.length;
      const context = JSON.stringify({ wish, values });
      expect(events.filter(asked.wants), context).toEqual(expected);
      const written = Line.of(7, events);
      for (const line of [
        written,
        ...[headersText(written.headers), null].map((facts) => Line.stored(7, written.text, facts)),
      ]) {
        const text = line.textFor(asked, null);
        expect(text === null ? [] : JSON.parse(text), context).toEqual(expected);
        if (expected.length === events.length && events.length > 0) expect(text).toBe(written.text);
      }
    }
    expect(wanted).toBeGreaterThan(SUBSCRIPTIONS / 2);
  });

  it("take events out of a line whose headers were not stored, by the text's own numbers", () => {
    const texts = ["a", "b"].map(
      (Key) =>
        `{"Topic":"T","Type":"t","Key":"${Key}","Namespace":"n","FilterKeys":[],"Index":7,"Payload":{"Score":50.0,"Big":[1e3,"],{,"]}}`,
    );
    const line = Line.stored(7, `[${texts.join(",")}]`, null);
    const wants = ({ Key }: { readonly Key: string }) => Key === "b";
    expect(line.textFor({ everything: false, traces: null, wants }, null)).toBe(`[${texts[1]}]`);
  });

  it("have a trace in the stored headers of every selected line", () => {
    for (let round = 0; round < SUBSCRIPTIONS; round++) {
      const { wish, values } = wishAndValues();
      const { traces } = matcher({ topics: topicsOf(values), namespaces: null, rules: null });
      const line = Line.of(7, numbered([event(), event()], 7));
      if (!line.headers.some((fact) => isWanted(fact, { ...wish, namespace: "*" })) || traces === null) continue;
      const facts = headersText(line.headers);
      expect(
        traces.some((trace) => facts.includes(trace)),
        JSON.stringify({ wish, facts }),
      ).toBe(true);
    }
  });

  it("are equal in any order of topics and with repeated topics", () => {
    for (let round = 0; round < SUBSCRIPTIONS; round++) {
      const { values } = wishAndValues();
      const again = [...values, ...values.filter(() => random() < 0.3)].sort(() => random() - 0.5);
      expect(JSON.stringify(topicsOf(again)), JSON.stringify(values)).toBe(JSON.stringify(topicsOf(values)));
    }
  });

  it("return an error for a topic with several colons and accept all others", () => {
    for (let round = 0; round < SUBSCRIPTIONS; round++) {
      const values = many(3, () => many(3, () => pick(NAMES)).join(":"));
      const refused = values.some((value) => value.split(":").length > 2);
      expect(parseTopics(values).ok, JSON.stringify(values)).toBe(!refused);
    }
  });

  it("over all namespaces apply the closest rule to each event", PROPERTY, () => {
    const patterns = ["default", "prod", "test", "*", "te*", "t*", "pro*", "d*"];
    for (let round = 0; round < SUBSCRIPTIONS; round++) {
      const rules: Rules = {
        namespaces: Object.fromEntries(many(5, () => [pick(patterns), pick(["read", "list", "deny"] as const)])),
        node: "read",
      };
      const words = { read: ["list-jobs", "read-job"], list: ["list-jobs"], deny: ["deny"] } as const;
      const named = Object.entries(rules.namespaces).map(
        ([name, word]): NamespaceRule => ({ name, capabilities: words[word], variables: [] }),
      );
      const asked = matcher({ topics: { "*": ["*"] }, namespaces: null, rules: named });
      const state = {
        index: 0,
        policies: new Map([["p", rules]]),
        tokens: new Map([["t", { management: false, policies: ["p"] }]]),
      };
      const events = Array.from({ length: 10 }, () => {
        const Topic = pick(["Job", "Allocation", "Evaluation", "Deployment", "Service"]);
        return { ...event(), Topic, Namespace: pick([...NAMESPACES, "tea", "x"]) };
      });
      const allowed = events.filter((each) => mayRead(state, "t", each));
      expect(events.filter(asked.wants), JSON.stringify(rules)).toEqual(allowed);
    }
  });
});
