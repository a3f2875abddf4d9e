import { describe, expect, it } from "vitest";
import { amount, PROPERTY } from "../../test/support/long.ts";
import { TYPE_NAMES } from "../compat/dialect.ts";
import type { Capability } from "../contracts/policies.ts";
import { inCanonicalNames } from "./aliases.ts";
import { capabilitiesFor, compilePaths, type ScopedPolicy } from "./path-rules.ts";

const compiled = (rules: Readonly<Record<string, string>>, namespace = "") => {
  const paths = Object.entries(rules).map(([path, words]) => ({
    path,
    capabilities: words.split(" ") as Capability[],
  }));
  const policy: ScopedPolicy = { namespace, paths };
  return compilePaths([policy]);
};
const asked = (rules: Readonly<Record<string, string>>, path: string, list = false, namespace = "") => {
  const question = inCanonicalNames(compiled(rules, namespace), namespace, path);
  return capabilitiesFor(question.acl, question.path, { list }).join(" ");
};

const AT = "sys/sync/destinations";
/** The capabilities for a request in each spelling, which must be equal. */
function both(rules: Readonly<Record<string, string>>, rest: string, list = false): string {
  const answers = [asked(rules, `${AT}/cloud-a-sm${rest}`, list), asked(rules, `${AT}/aws-sm${rest}`, list)];
  expect(answers[0]).toBe(answers[1]);
  return answers[0] ?? "";
}

describe("a rule with either name of a type", () => {
  it.each(["cloud-a-sm", "aws-sm"])("grants requests by both names (%s)", (word) => {
    expect(both({ [`${AT}/${word}/*`]: "read" }, "/prod")).toBe("read");
    expect(both({ [`${AT}/${word}/prod`]: "update" }, "/prod")).toBe("update");
    expect(both({ [`${AT}/${word}/+/associations`]: "read" }, "/prod/associations")).toBe("read");
    expect(both({ [`${AT}/${word}`]: "list" }, "", true)).toBe("list");
    expect(both({ [`${AT}/${word}/`]: "list" }, "/", true)).toBe("list");
    expect(both({ [`+/sync/+/${word}/*`]: "read" }, "/prod")).toBe("read");
    expect(both({ [`${AT}/${word}*`]: "read" }, "/prod")).toBe("read");
  });

  it.each(["cloud-a-sm", "aws-sm"])("denies requests by both names (%s)", (word) => {
    for (const pattern of [`${AT}/${word}/*`, `${AT}/${word}/prod`, `${AT}/${word}*`, `${AT}/${word.slice(0, 3)}*`]) {
      expect(both({ [`${AT}/*`]: "read", [pattern]: "deny" }, "/prod"), pattern).toBe("deny");
      expect(both({ "*": "sudo", [pattern]: "deny" }, "/prod"), pattern).toBe("deny");
    }
  });

  it("merges with the rule for the other name: capabilities add up, deny wins", () => {
    expect(both({ [`${AT}/aws-sm/*`]: "read", [`${AT}/cloud-a-sm/*`]: "update" }, "/prod")).toBe("read update");
    expect(both({ [`${AT}/aws-sm/*`]: "read", [`${AT}/cloud-a-sm/*`]: "deny" }, "/prod")).toBe("deny");
    expect(both({ [`${AT}/aws-sm/*`]: "deny", [`${AT}/cloud-a-sm/*`]: "read" }, "/prod")).toBe("deny");
  });

  it("yields to a more specific rule with either name, regardless of the names' lengths", () => {
    expect(both({ [`${AT}/cloud-a-sm/*`]: "read", [`${AT}/aws-sm/p*`]: "deny" }, "/prod")).toBe("deny");
    expect(both({ [`${AT}/aws-sm/*`]: "deny", [`${AT}/cloud-a-sm/prod`]: "read" }, "/prod")).toBe("read");
    expect(asked({ [`${AT}/repo-host/*`]: "read", [`${AT}/gh/w*`]: "deny" }, `${AT}/repo-host/web`)).toBe("deny");
    expect(asked({ [`${AT}/repo-host/+`]: "read", [`${AT}/gh/we*`]: "deny" }, `${AT}/gh/web`)).toBe("deny");
  });

  it("does not apply to other types", () => {
    const rules = { [`${AT}/aws-sm/*`]: "read" };
    for (const type of ["azure-kv", "cloud-b-kv", "in-mem", "gh"]) {
      expect(asked(rules, `${AT}/${type}/prod`)).toBe("deny");
    }
  });
});

describe("a glob that ends inside a name", () => {
  it("grants by the letters of that name, for requests by both names", () => {
    expect(both({ [`${AT}/aws-*`]: "read" }, "/prod")).toBe("read");
    expect(both({ [`${AT}/cloud-*`]: "read" }, "/prod")).toBe("read");
    expect(asked({ [`${AT}/a*`]: "read" }, `${AT}/cloud-b-kv/x`)).toBe("read");
    expect(asked({ [`${AT}/aws-*`]: "read" }, `${AT}/cloud-b-kv/x`)).toBe("deny");
  });

  it("yields to a longer glob and to the whole name, and precedes globs above the name", () => {
    expect(both({ [`${AT}/a*`]: "read update", [`${AT}/aws*`]: "read" }, "/prod")).toBe("read");
    expect(both({ [`${AT}/aws-s*`]: "read update", [`${AT}/cloud-a-sm/*`]: "read" }, "/prod")).toBe("read");
    expect(both({ [`${AT}/*`]: "read update", [`${AT}/aws-s*`]: "read" }, "/prod")).toBe("read");
  });

  it("with deny precedes other globs inside a name", () => {
    expect(both({ [`${AT}/aws-*`]: "deny", [`${AT}/cloud-a*`]: "read" }, "/prod")).toBe("deny");
    expect(both({ [`${AT}/c*`]: "deny", [`${AT}/aws-sm*`]: "read" }, "/prod")).toBe("deny");
    expect(both({ [`${AT}/a*`]: "deny", [`${AT}/aws-sm/prod`]: "read" }, "/prod")).toBe("read");
  });
});

describe("aliases apply only to the segment of the type", () => {
  it("not in names of destinations, mounts or secrets", () => {
    const rules = { [`${AT}/in-mem/gh`]: "read", "kv/data/sys/sync/destinations/gh/*": "read", "gh/data/gh": "read" };
    expect(asked(rules, `${AT}/in-mem/gh`)).toBe("read");
    expect(asked(rules, `${AT}/in-mem/repo-host`)).toBe("deny");
    expect(asked(rules, "kv/data/sys/sync/destinations/gh/a")).toBe("read");
    expect(asked(rules, "kv/data/sys/sync/destinations/repo-host/a")).toBe("deny");
    expect(asked(rules, "repo-host/data/gh")).toBe("deny");
    expect(asked({ "+/+/+/+/gh": "read" }, `${AT}/in-mem/gh`)).toBe("read");
    expect(asked({ "+/+/+/+/gh": "read" }, `${AT}/repo-host/gh`)).toBe("read");
    expect(asked({ "+/+/+/+/gh": "read" }, `${AT}/repo-host/repo-host`)).toBe("deny");
  });

  it("in every namespace, and in rules of parent namespaces", () => {
    const path = `${AT}/aws-sm/prod`;
    expect(asked({ [`${AT}/cloud-a-sm/*`]: "read" }, path, false, "team/a/")).toBe("read");
    for (const lead of ["team/a", "team/+", "+/+"]) {
      const acl = compiled({ [`${lead}/${AT}/+/prod`]: "read", [`${lead}/${AT}/cloud-a-sm/prod`]: "update" });
      const question = inCanonicalNames(acl, "team/a/", path);
      expect(capabilitiesFor(question.acl, question.path)).toEqual(["update"]);
    }
  });

  it("and in the folder of applications", () => {
    const rules = { "sys/sync/*": "read", "sys/sync/github-apps/*": "deny" };
    expect(asked(rules, "sys/sync/repo-host-apps/bot")).toBe("deny");
    expect(asked(rules, "sys/sync/github-apps/bot")).toBe("deny");
    expect(asked({ "sys/sync/repo-host-apps": "list" }, "sys/sync/github-apps", true)).toBe("list");
  });
});

describe("random rules", () => {
  let seed = 7;
  const pick = <T>(from: readonly T[]): T => {
    seed = (seed * 48_271) % 2_147_483_647;
    return from[seed % from.length] as T;
  };
  const tails = ["", "/", "/*", "/x", "/+", "/x/*", "/+/y", "/x*"];
  const heads = [AT, "sys/+/destinations", "+/sync/destinations", "sys/sync/+"];

  it("have the same result for either name, in rules and requests", PROPERTY, () => {
    for (let round = 0; round < amount(1_000, 3_000); round++) {
      const rules = Array.from({ length: 4 }, () => {
        const [neutral, upstream] = pick(TYPE_NAMES);
        const words = pick(["read", "update", "deny", "read list"]);
        return { head: pick(heads), tail: pick(tails), neutral, upstream, words };
      });
      // A policy document may contain one pattern twice, an object may not. Each rule is therefore a policy of its own.
      const spelt = (choose: (rule: (typeof rules)[number]) => string) =>
        compilePaths(
          rules.map((rule) => ({
            namespace: "",
            paths: [
              { path: `${rule.head}/${choose(rule)}${rule.tail}`, capabilities: rule.words.split(" ") as Capability[] },
            ],
          })),
        );
      const policies = [
        spelt(({ neutral }) => neutral),
        spelt(({ upstream }) => upstream),
        spelt(({ neutral, upstream }) => pick([neutral, upstream])),
      ];
      const [neutral, upstream] = pick(TYPE_NAMES);
      const rest = pick(["", "/", "/x", "/x/y", "/xz"]);
      const answers = policies.flatMap((acl) =>
        [neutral, upstream].map((word) => {
          const question = inCanonicalNames(acl, "", `${AT}/${word}${rest}`);
          return capabilitiesFor(question.acl, question.path).join(" ");
        }),
      );
      expect(new Set(answers).size, JSON.stringify({ rules, rest, neutral })).toBe(1);
      // Rules and requests in one spelling yield the same capabilities without aliases.
      const plain = policies[0] && capabilitiesFor(policies[0], `${AT}/${neutral}${rest}`).join(" ");
      expect(answers[0]).toBe(plain);
    }
  });
});
