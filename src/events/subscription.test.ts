import { describe, expect, it } from "vitest";
import { matcher, parseTopics } from "./subscription.ts";

const event = { Topic: "Job", Key: "web", Namespace: "default", FilterKeys: ["group", ""] };

describe("a subscription", () => {
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
  ])("to topics %j in namespaces %j matches a Job event: %s", (topics, namespaces, wanted) => {
    expect(matcher({ topics, namespaces, rules: null }).wants(event, 1)).toBe(wanted);
  });

  it("matches events without a namespace under any namespace filter", () => {
    expect(
      matcher({ topics: { Node: ["*"] }, namespaces: [], rules: null }).wants(
        { ...event, Topic: "Node", Namespace: "" },
        1,
      ),
    ).toBe(true);
  });

  it("to Node includes NodeDrain events, but not the reverse", () => {
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
  ])("to %j has the header traces %j", (topics, traces) => {
    expect(matcher({ topics, namespaces: null, rules: null }).traces).toEqual(traces);
  });

  it("applies the rule with the closest namespace glob to each event", () => {
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

  it("to a namespace excludes events from before its creation", () => {
    const { wants } = matcher({ topics: { "*": ["*"] }, namespaces: ["default"], rules: null, since: 7 });
    expect([6, 7, 8].map((index) => wants(event, index))).toEqual([false, true, true]);
    expect(wants({ ...event, Namespace: "" }, 6)).toBe(true);
  });

  it("without any restriction is recognised, so that lines are not parsed", () => {
    expect(matcher({ topics: { "*": ["a", "*"] }, namespaces: null, rules: null, paths: null }).everything).toBe(true);
    expect(matcher({ topics: { "*": ["*"] }, namespaces: null, rules: null }).everything).toBe(false);
    expect(matcher({ topics: { "*": ["*"] }, namespaces: ["default"], rules: null, paths: null }).everything).toBe(
      false,
    );
    expect(matcher({ topics: { "*": ["a"] }, namespaces: null, rules: null, paths: null }).everything).toBe(false);
  });
});

describe("topic parameters", () => {
  it.each([
    [[], { "*": ["*"] }],
    [["Job"], { Job: ["*"] }],
    [["Job:a", "Job:b", "Job:a", "Node"], { Job: ["a", "b"], Node: ["*"] }],
    [["Job:"], { Job: [""] }],
    [[""], { "": ["*"] }],
  ])("%j are parsed to %j", (values, topics) => {
    expect(parseTopics(values)).toEqual({ ok: true, topics });
  });

  it("are equal in any order, so that their readers share a group", () => {
    const written = ["Job:a", "Job:b", "Node", "Job:a"];
    expect(JSON.stringify(parseTopics(written))).toBe(JSON.stringify(parseTopics(written.toReversed())));
  });

  it("may be names of object internals", () => {
    const parsed = parseTopics(["__proto__:a", "constructor"]);
    expect(parsed.ok && Object.entries(parsed.topics)).toEqual([
      ["__proto__", ["a"]],
      ["constructor", ["*"]],
    ]);
  });

  it("with two colons return an error", () => {
    expect(parseTopics(["Job", "a:b:c"])).toMatchObject({
      ok: false,
      message: expect.stringContaining("topic: a:b:c"),
    });
  });
});
