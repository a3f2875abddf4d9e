import { describe, expect, it } from "vitest";
import { amount, PROPERTY } from "../../test/support/long.ts";
import { CAPABILITIES, type Capability, type PathRule } from "../contracts/policies.ts";
import { capabilitiesFor, compilePaths } from "./path-rules.ts";

/** Policy documents, each asked for 40 paths. */
const DOCUMENTS = amount(250, 1_000);

describe("the compiled matcher", () => {
  /** The rules of the language as a plain reference implementation, without regard to speed. */
  function naive(rules: PathRule[], path: string, list: boolean): Capability[] {
    const bare = path.replace(/^\/+/, "");
    const tries = list ? [bare.replace(/\/?$/, "/"), bare.replace(/\/$/, "")] : [bare];
    if (bare.split("/").includes("..")) return ["deny"];
    const isWild = (pattern: string) => pattern.endsWith("*") || pattern.split("/").includes("+");
    const literal = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const matchesPattern = (pattern: string, text: string) => {
      const body = pattern.replace(/\*$/, "").split("/");
      const source = body.map((segment) => (segment === "+" ? "[^/]*" : literal(segment))).join("/");
      return new RegExp(`^${source}${pattern.endsWith("*") ? "[\\s\\S]*" : ""}$`).test(text);
    };
    const firstWildcard = (pattern: string) => {
      const plus = `/${pattern}/`.indexOf("/+/");
      return plus >= 0 ? plus : pattern.length - 1;
    };
    const plusses = (pattern: string) => pattern.split("/").filter((segment) => segment === "+").length;
    const isLower = (a: string, b: string) => {
      if (firstWildcard(a) !== firstWildcard(b)) return firstWildcard(a) < firstWildcard(b);
      if (a.endsWith("*") !== b.endsWith("*")) return a.endsWith("*");
      if (plusses(a) !== plusses(b)) return plusses(a) > plusses(b);
      if (a.length !== b.length) return a.length < b.length;
      return a < b;
    };
    const patterns = rules.map((each) => each.path);
    const exact = tries.find((each) => patterns.some((pattern) => pattern === each && !isWild(pattern)));
    // Of the patterns with wildcards, those that match a folder without its slash come first.
    const [wild = []] = tries
      .toReversed()
      .map((each) => patterns.filter((pattern) => isWild(pattern) && matchesPattern(pattern, each)))
      .filter((matching) => matching.length > 0);
    const winner =
      exact ?? wild.reduce<string | undefined>((a, b) => (a === undefined || isLower(a, b) ? b : a), undefined);
    const held = new Set(rules.filter((each) => each.path === winner).flatMap((each) => each.capabilities));
    return held.size === 0 || held.has("deny") ? ["deny"] : [...held].sort();
  }

  function random(seed: number) {
    let state = seed;
    return (below: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
  }

  it("agrees with the reference implementation on random paths", PROPERTY, () => {
    const next = random(20_260_804);
    const pick = <T>(from: readonly T[]): T => from[next(from.length)] as T;
    const text = (segments: readonly string[], deletions: readonly string[]) =>
      Array.from({ length: 1 + next(4) }, () => pick(segments)).join("/") + pick(deletions);
    const tally = new Map<string, number>();
    for (let round = 0; round < DOCUMENTS; round++) {
      const rules = Array.from({ length: 1 + next(12) }, () => {
        const path = text(["a", "b", "ab", "+", "+", "a+", "*", ""], ["", "", "/", "*", "/*", "b*"]);
        return {
          path: path.replaceAll("+*", "+/*"),
          capabilities: [...new Set([pick(CAPABILITIES), pick(CAPABILITIES)])],
        };
      });
      const compiled = compilePaths([{ namespace: "", paths: rules }]);
      for (let question = 0; question < 40; question++) {
        const path = text(["a", "b", "ab", "abc", "*", "a+", "", ".."], ["", "", "/", "b"]);
        const list = next(2) === 1;
        const answer = capabilitiesFor(compiled, path, { list });
        expect(answer, `${path} ${list} ${JSON.stringify(rules)}`).toEqual(naive(rules, path, list));
        const kind = answer.includes("deny") ? "denied" : "granted";
        tally.set(kind, (tally.get(kind) ?? 0) + 1);
      }
    }
    // The sample must contain plenty of granted and of denied paths.
    expect(Math.min(tally.get("denied") ?? 0, tally.get("granted") ?? 0)).toBeGreaterThan(5 * DOCUMENTS);
  });
});
