import { describe, expect, it } from "vitest";
import { matcher, parseTopics } from "./subscription.ts";

const event = { Topic: "Job", Key: "web", Namespace: "default", FilterKeys: ["group", ""] };

describe("a matcher", () => {
  it.each([
    [{ "*": ["*"] }, null, true],
    [{ Job: ["*"] }, null, true],
    [{ Job: ["web"] }, null, true],
    [{ Job: ["group"] }, null, true],
    [{ Job: [""] }, null, true],
    [{ "*": ["web"] }, null, true],
    [{ Job: ["other"], "*": ["group"] }, null, true],
    [{ Job: ["other"] }, null, false],
    [{ Node: ["*"] }, null, false],
    [{ job: ["*"] }, null, false],
    [{ Job: ["we*"] }, null, false],
    [{}, null, false],
    [{ Job: ["*"] }, ["default"], true],
    [{ Job: ["*"] }, ["prod"], false],
    [{ "*": ["*"] }, [], false],
  ])("of %j in %j says %s", (topics, namespaces, wanted) => {
    expect(matcher({ topics, namespaces, rules: null }).wants(event, 1)).toBe(wanted);
  });

  it("lets events without a namespace through whatever the namespaces", () => {
    expect(
      matcher({ topics: { Node: ["*"] }, namespaces: [], rules: null }).wants(
        { ...event, Topic: "Node", Namespace: "" },
        1,
      ),
    ).toBe(true);
  });

  it("counts drain events as node events, not the other way round", () => {
    const at = (topic: string, Topic: string) =>
      matcher({ topics: { [topic]: ["*"] }, namespaces: null, rules: null }).wants({ ...event, Topic }, 1);
    expect([at("Node", "NodeDrain"), at("NodeDrain", "NodeDrain"), at("NodeDrain", "Node")]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it.each([
    [{ Job: ["*"] }, ['"Job"']],
    [{ Job: ["web", 'a"b'] }, ['"web"', '"a\\"b"']],
    [{ Job: ["web", "*"], Node: ["n1"] }, ['"Job"', '"n1"']],
    [{ Node: ["*"] }, ['"Node"', '"NodeDrain"']],
    [{ "*": ["web"] }, ['"web"']],
    [{ "*": ["*"] }, null],
    [{ Job: Array.from({ length: 50 }, (_, n) => `k${n}`) }, null],
  ])("of %j leaves %j behind in every line that it wants", (topics, traces) => {
    expect(matcher({ topics, namespaces: null, rules: null }).traces).toEqual(traces);
  });

  it("judges each event by the rules it is given, the closest first", () => {
    const capabilities = ["read-job"] as const;
    const rules = [
      { name: "*", capabilities, variables: [] },
      { name: "a*", capabilities: ["deny"] as const, variables: [] },
      { name: "ab", capabilities, variables: [] },
    ];
    const { wants } = matcher({ topics: { Job: ["*"] }, namespaces: null, rules });
    const seen = ["b", "a", "ab", "abc", ""].filter((Namespace) => wants({ ...event, Namespace }, 1));
    expect(seen).toEqual(["b", "ab", ""]);
  });

  it("leaves out events of a namespace from before its beginning, and none without a namespace", () => {
    const { wants } = matcher({ topics: { "*": ["*"] }, namespaces: ["default"], rules: null, since: 7 });
    expect([6, 7, 8].map((index) => wants(event, index))).toEqual([false, true, true]);
    expect(wants({ ...event, Namespace: "" }, 6)).toBe(true);
  });

  it("knows when nothing needs to be looked at", () => {
    expect(matcher({ topics: { "*": ["a", "*"] }, namespaces: null, rules: null }).everything).toBe(true);
    expect(matcher({ topics: { "*": ["*"] }, namespaces: ["default"], rules: null }).everything).toBe(false);
    expect(matcher({ topics: { "*": ["a"] }, namespaces: null, rules: null }).everything).toBe(false);
  });
});

describe("topics", () => {
  it.each([
    [[], { "*": ["*"] }],
    [["Job"], { Job: ["*"] }],
    [["Job:a", "Job:b", "Job:a", "Node"], { Job: ["a", "b"], Node: ["*"] }],
    [["Job:"], { Job: [""] }],
    [[""], { "": ["*"] }],
  ])("%j are read as %j", (values, topics) => {
    expect(parseTopics(values)).toEqual({ ok: true, topics });
  });

  it("say the same in whatever order, so that their readers share their bytes", () => {
    const written = ["Job:a", "Job:b", "Node", "Job:a"];
    expect(JSON.stringify(parseTopics(written))).toBe(JSON.stringify(parseTopics(written.toReversed())));
  });

  it("of any name stay names", () => {
    const parsed = parseTopics(["__proto__:a", "constructor"]);
    expect(parsed.ok && Object.entries(parsed.topics)).toEqual([
      ["__proto__", ["a"]],
      ["constructor", ["*"]],
    ]);
  });

  it("with two colons are refused whole", () => {
    expect(parseTopics(["Job", "a:b:c"])).toMatchObject({
      ok: false,
      message: expect.stringContaining("topic: a:b:c"),
    });
  });
});
