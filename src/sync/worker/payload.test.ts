import { describe, expect, it } from "vitest";
import { contentsOf, secretKeyValues } from "./payload.ts";

const pathValue = (data: string) => {
  const result = contentsOf("secret-path", data);
  return result.ok ? result.values[0]?.value : result;
};
const keyValues = (data: string) => {
  const result = secretKeyValues(data);
  return result.ok ? Object.fromEntries(result.values.map(({ key, value }) => [key, value])) : result;
};

describe("granularity secret-path", () => {
  it("pushes compact JSON with keys sorted at every level", () => {
    expect(pathValue('{ "b": {"z": [ {"d":1,"c":2} ], "a": true}, "a": null }')).toBe(
      '{"a":null,"b":{"a":true,"z":[{"c":2,"d":1}]}}',
    );
  });

  it.each(["12345678901234567890123", "1.0", "1e400", "-0", "0.10000000000000000000001", "1E+2"])(
    "keeps the number %s verbatim at every level",
    (number) => {
      expect(pathValue(`{"n":${number},"l":[${number}]}`)).toBe(`{"l":[${number}],"n":${number}}`);
    },
  );

  it("sorts keys as Go: digits as text, by UTF-8 bytes instead of UTF-16 units", () => {
    expect(pathValue('{"10":1,"9":2,"1":3}')).toBe('{"1":3,"10":1,"9":2}');
    expect(pathValue('{"\u{1F600}":1,"\uFF5E":2,"a":3}')).toBe('{"a":3,"\uFF5E":2,"\u{1F600}":1}');
    expect(pathValue('{"ab":1,"a":2,"":3}')).toBe('{"":3,"a":2,"ab":1}');
  });

  it("does not escape HTML", () => {
    expect(pathValue('{"a":"<b>&\\u003c/b>"}')).toBe('{"a":"<b>&</b>"}');
  });

  it("keeps a key named __proto__", () => {
    expect(pathValue('{"__proto__":{"a":1},"constructor":2,"rawJSON":"x"}')).toBe(
      '{"__proto__":{"a":1},"constructor":2,"rawJSON":"x"}',
    );
  });

  it("pushes an empty secret as {}", () => {
    expect(pathValue("{}")).toBe("{}");
  });

  it("returns its own output unchanged", () => {
    const once = pathValue('{"b":[1.50,{"y":"\\ud800","x":"\\n"}],"a":"é"}');
    expect(pathValue(String(once))).toBe(once);
  });
});

describe("granularity secret-key", () => {
  it("pushes texts verbatim, other values as JSON text, null as an empty text", () => {
    expect(
      keyValues('{"t":"  \\"quoted\\"\\n","n":12345678901234567890,"f":1.0,"b":false,"l":[1,{"b":1,"a":2}],"z":null}'),
    ).toEqual({ t: '  "quoted"\n', n: "12345678901234567890", f: "1.0", b: "false", l: '[1,{"a":2,"b":1}]', z: "" });
  });

  it("returns no values for an empty secret", () => {
    expect(secretKeyValues("{}")).toEqual({ ok: true, values: [] });
  });

  it("returns keys in sorted order", () => {
    const result = secretKeyValues('{"b":"","10":"","9":""}');
    expect(result.ok && result.values.map(({ key }) => key)).toEqual(["10", "9", "b"]);
  });
});

describe("granularity secret-path for a target with keys", () => {
  const data = '{"b":"x","a":{"d":1.0,"c":null},"n":12345678901234567890,"z":null,"__proto__":"p"}';

  it("passes the text, and a map of the same texts as granularity secret-key", () => {
    const result = contentsOf("secret-path", data, true);
    const [content, ...others] = result.ok ? result.values : [];
    expect(others).toEqual([]);
    expect(content?.key).toBe("");
    expect(content?.value).toBe(pathValue(data));
    expect(Object.entries(content?.data ?? {})).toEqual(Object.entries(keyValues(data)));
    expect(Object.keys(content?.data ?? {})).toContain("__proto__");
  });

  it("passes no map to other targets, and none for single keys", () => {
    expect(contentsOf("secret-path", "{}")).toEqual({ ok: true, values: [{ key: "", value: "{}" }] });
    expect(contentsOf("secret-key", '{"a":"1"}', true)).toEqual({ ok: true, values: [{ key: "a", value: "1" }] });
  });

  it("refuses data that is not an object", () => {
    expect(contentsOf("secret-path", "[]", true)).toMatchObject({ ok: false });
  });
});

describe("data that cannot be pushed", () => {
  it.each(["", "[]", "null", "7", '"secret"', '{"password":"hunter2"'])("refuses %j without quoting it", (data) => {
    const refused = { ok: false, message: "the secret's data is not a JSON object" };
    expect(contentsOf("secret-path", data)).toEqual(refused);
    expect(secretKeyValues(data)).toEqual(refused);
  });

  it("refuses too deep nesting and ignores brackets inside texts", () => {
    const nested = (levels: number) => `{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`;
    expect(contentsOf("secret-path", nested(200_000))).toMatchObject({
      ok: false,
      message: expect.stringContaining("512"),
    });
    expect(contentsOf("secret-path", nested(512))).toMatchObject({ ok: false });
    expect(pathValue(nested(511))).toBe(nested(511));
    const brackets = `{"a":"\\"${"[{".repeat(1000)}"}`;
    expect(pathValue(brackets)).toBe(brackets);
  });
});
