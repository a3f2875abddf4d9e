import { describe, expect, it } from "vitest";
import cloudflare from "../../../../examples/producers/cloudflare-account-token.json" with { type: "json" };
import { accountOf, ConfigBody, changeConfig, reach } from "./config.ts";

const vars = { account: "a", permission: "p", root_permission: "r" };
const body = (more: object = {}) =>
  ConfigBody.parse({ url: cloudflare.url, producer: cloudflare.producer, secrets: { token: "t" }, vars, ...more });
const written = (more: object = {}) => changeConfig(null, body(more));

function account(more: object = {}) {
  const config = written(more);
  const found = config.ok ? accountOf(config.value) : config;
  if (!found.ok) throw new Error(found.message);
  return found.value;
}

describe("the account of a producer", () => {
  it.each([
    ["nothing else", "same", {}],
    ["other variables", "same", { vars: { ...vars, permission: "q" } }],
    ["other secrets", "perhaps", { secrets: { token: "of another user" } }],
    ["another definition", "perhaps", { producer: { ...cloudflare.producer, lag: 60 } }],
    ["another address", "never", { url: "https://api.example" }],
  ] as const)("with %s reaches what an earlier one has made: %s", (_name, expected, more) => {
    expect(reach(account(), account(more))).toBe(expected);
  });
});

describe("the configuration of a producer", () => {
  const ttl = (seconds: number) => ({ ...cloudflare.producer, root: { ...cloudflare.producer.root, ttl: seconds } });

  it("is refused when the secrets end before they are rotated", () => {
    const message = "rotation_period must be shorter than root.ttl of the producer";
    expect(written({ producer: ttl(3_600), rotation_period: 3_600 })).toMatchObject({ ok: false, message });
    expect(written({ producer: ttl(3_600), rotation_period: 3_599 })).toMatchObject({ ok: true });
    expect(written({ rotation_period: "90d" })).toMatchObject({ ok: true });
    const off = { disable_automated_rotation: true };
    expect(written({ producer: ttl(3_600), rotation_period: 3_600, ...off })).toMatchObject({ ok: true });
    // A configuration of an earlier release can still be changed.
    const config = written({ producer: ttl(3_600), rotation_period: 60 });
    if (!config.ok) throw new Error(config.message);
    const stored = { ...config.value, rotation_period: 7_200 };
    expect(changeConfig(stored, ConfigBody.parse({ secrets: { token: "other" } }))).toMatchObject({ ok: true });
    const on = ConfigBody.parse({ disable_automated_rotation: false });
    expect(changeConfig({ ...stored, ...off }, on)).toMatchObject({ ok: false, message });
  });

  it.each([
    ["other variables", true, { vars: { ...vars, more: "m" } }],
    ["another lag", true, { producer: { ...cloudflare.producer, lag: 60 } }],
    ["other secrets", false, { secrets: { token: "other" } }],
    ["other calls of a rotation", false, { producer: ttl(7_200) }],
  ])("with %s still has the object of the last rotation: %s", (_name, expected, more) => {
    const config = written();
    if (!config.ok) throw new Error(config.message);
    const root = { call: 0, vars, created: [], at: 0 } as never;
    const changed = changeConfig({ ...config.value, root }, ConfigBody.parse(more));
    expect(changed.ok && changed.value.root !== null).toBe(expected);
  });

  it("is refused with a value that is no Unicode", () => {
    for (const given of [{ vars: { account: "\ud800" } }, { secrets: { token: "\udc00" } }]) {
      expect(ConfigBody.safeParse(given).error?.issues).toMatchObject([{ message: "must be valid Unicode" }]);
    }
  });
});
