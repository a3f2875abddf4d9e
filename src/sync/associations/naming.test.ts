import { describe, expect, it } from "vitest";
import { textSteps } from "../../../test/text-steps.ts";
import { cloudASm } from "../destinations/cloud-a-sm/adapter.ts";
import { destinationTypes } from "../destinations/index.ts";
import { baseName, checkTemplate, normalise, parseTemplate, render, type TemplateFields } from "./naming.ts";

const fields: TemplateFields = {
  DestinationType: "cloud-a-sm",
  DestinationName: "prod-eu",
  NamespacePath: "team/a",
  NamespaceBaseName: "a",
  NamespaceID: "n1",
  MountPath: "apps/kv",
  MountBaseName: "kv",
  MountAccessor: "kv_1234",
  SecretPath: "path/to/secret1",
  SecretBaseName: "secret1",
  SecretKey: "foo",
};

function rendered(text: string, changed: Partial<TemplateFields> = {}): string {
  const parsed = parseTemplate(text);
  return parsed.ok ? render(parsed.template, { ...fields, ...changed }) : `refused: ${parsed.message}`;
}

describe("templates", () => {
  it.each([
    // The documented examples.
    ["prefix-{{ .SecretPath }}", "prefix-path/to/secret1"],
    ["{{ .SecretBaseName | uppercase }}", "SECRET1"],
    ["{{ .MountAccessor }}_{{ .SecretKey }}", "kv_1234_foo"],
    ['{{ .SecretPath | replace "/" "_" }}', "path_to_secret1"],
    ['vault-{{ .MountAccessor | replace "_" "-" }}-{{ .SecretPath }}', "vault-kv-1234-path/to/secret1"],
    // Every field.
    ["{{.DestinationType}} {{.DestinationName}} {{.NamespacePath}}", "cloud-a-sm prod-eu team/a"],
    ["{{.NamespaceBaseName}} {{.NamespaceID}} {{.MountPath}} {{.MountBaseName}}", "a n1 apps/kv kv"],
    // Calls before their subject, in parentheses, and after one another.
    ["{{ uppercase .SecretKey }}", "FOO"],
    ['{{ replace "/" "_" .SecretPath }}', "path_to_secret1"],
    ['{{ uppercase (replace "/" "_" .SecretPath) }}', "PATH_TO_SECRET1"],
    ['{{ (.SecretPath | replace "/" "") | uppercase | truncate 6 }}', "PATHTO"],
    ['{{ replace .SecretKey "kv" .SecretKey }}', "kv"],
    // Texts.
    ['{{ "a\\tb\\"\\u00e9" }}', 'a\tb"é'],
    ["{{ `a\\t` }}", "a\\t"],
    ['{{ "}}" }}', "}}"],
    ["a } b }} {c", "a } b }} {c"],
    // White space.
    ["a  {{- .SecretKey -}}\n\t b", "afoob"],
    ["a {{ .SecretKey -}} b {{- .SecretKey }} c", "a foobfoo c"],
    ["{{\n.SecretKey\n|\nuppercase\n}}", "FOO"],
    // Functions.
    ["{{ .SecretKey | sha256 }}", "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"],
    ["{{ .SecretKey | base64 }}", "Zm9v"],
    ['{{ "FOO" | lowercase }}', "foo"],
    ["{{ truncate 4 .SecretPath }}", "path"],
    ["{{ truncate 400 .SecretPath }}", "path/to/secret1"],
    ["{{ truncate_sha256 15 .SecretPath }}", "path/to/secret1"],
    ['{{ .SecretPath | replace "/" "$&" }}', "path$&to$&secret1"],
  ])("%s renders %s", (template, name) => {
    expect(rendered(template)).toBe(name);
  });

  it("truncate_sha256 keeps N - 8 characters and 8 hex digits of the hash of the rest", () => {
    // printf 'to/secret1' | sha256sum
    expect(rendered("{{ .SecretPath | truncate_sha256 13 }}")).toBe("path/198b9463");
  });

  it("counts lengths in UTF-8 bytes and never splits a character", () => {
    expect(rendered("{{ truncate 3 .SecretKey }}", { SecretKey: "aéé" })).toBe("aé");
    expect(rendered("{{ truncate 4 .SecretKey }}", { SecretKey: "aéé" })).toBe("aé");
  });

  it("maps case one character to one, as Go does", () => {
    expect(rendered("{{ uppercase .SecretKey }}", { SecretKey: "straße é" })).toBe("STRAßE É");
  });

  it("replace with an empty field finds no match", () => {
    expect(rendered('{{ replace .NamespacePath "x" .SecretKey }}', { NamespacePath: "" })).toBe("foo");
  });

  it.each([
    ["{{ .Secret }}", 'unknown field ".Secret"'],
    ["{{ .SecretPath.Length }}", "unknown field"],
    ["{{ . }}", 'unknown field "."'],
    ["{{ title .SecretKey }}", 'unknown function "title"'],
    ["{{ constructor .SecretKey }}", 'unknown function "constructor"'],
    ["{{ .SecretKey | random }}", "a new name at every push"],
    ["{{ random 10 }}", "a new name at every push"],
    ["{{ uuid }}", "a new name at every push"],
    ['{{ timestamp "2006" }}', "a new name at every push"],
    ["{{ unix_time }}", "a new name at every push"],
    ["{{ unix_time_millis }}", "a new name at every push"],
    ["{{ if .SecretKey }}x{{ end }}", "not supported"],
    ['{{ template "x" }}', "not supported"],
    ["{{ $x := .SecretKey }}", "unexpected"],
    ["{{/* note */}}", "unexpected"],
    ["{{ .SecretKey", "not closed"],
    ["{{ .SecretKey }", "unexpected"],
    ['{{ "a }}', "unexpected"],
    ['{{ "\\q" }}', "unknown escape"],
    ["{{ }}", "empty"],
    ["{{ | uppercase }}", "empty"],
    ["{{ .SecretKey | }}", "empty"],
    ["{{ .SecretKey | .SecretPath }}", "only a function can follow |"],
    ["{{ .SecretKey .SecretPath }}", "takes no arguments"],
    ["{{ 5 }}", "not a name"],
    ["{{ uppercase }}", "takes 1 arguments, got 0"],
    ['{{ .SecretKey | replace "a" }}', "takes 3 arguments, got 2"],
    ["{{ .SecretKey | truncate .SecretPath }}", "argument 1 of truncate must be a number"],
    ["{{ .SecretKey | replace 1 2 }}", "argument 1 of replace must be a text"],
    ["{{ .SecretKey | truncate 0 }}", "at least 1"],
    ["{{ .SecretKey | truncate -1 }}", "unexpected"],
    ["{{ .SecretKey | truncate_sha256 8 }}", "at least 9"],
    ['{{ .SecretKey | replace "" "x" }}', "needs a text to find"],
    ["{{ uppercase lowercase .SecretKey }}", "put the call in parentheses"],
    ["{{ (.SecretKey }}", "not closed"],
    ["{{ .SecretKey ) }}", "no opening one"],
  ])("refuses %s", (template, message) => {
    expect(parseTemplate(template)).toEqual({ ok: false, message: expect.stringContaining(message) });
  });

  it("refuses templates that are too long or could render a huge name, without rendering", () => {
    expect(parseTemplate("x".repeat(100_001))).toMatchObject({ ok: false, message: expect.stringContaining("100000") });
    expect(parseTemplate("x".repeat(100_000)).ok).toBe(true);
    const tenfold = ' | replace "a" "aaaaaaaaaa"';
    expect(parseTemplate(`{{ .SecretPath${tenfold} }}`).ok).toBe(true);
    expect(parseTemplate(`{{ .SecretPath${tenfold.repeat(9)} }}`)).toMatchObject({
      ok: false,
      message: expect.stringContaining("1000000 characters"),
    });
    expect(parseTemplate(`{{ .SecretPath${" | sha256".repeat(5000)} }}`)).toMatchObject({ ok: false });
    expect(parseTemplate(`{{ ${"(".repeat(5000)}.SecretPath${")".repeat(5000)} }}`)).toMatchObject({ ok: false });
  });

  it("parses hostile white space in linear time", () => {
    const template = `${" ".repeat(99_000)}x{{- .SecretPath }}`;
    const { value, steps } = textSteps(() => parseTemplate(template));
    expect(value.ok).toBe(true);
    expect(steps).toBeLessThan(5 * template.length);
    // Steps inside regular expressions are not counted: quadratic ones would exceed the test's time limit.
    for (let times = 0; times < 50; times++) parseTemplate(template);
  });
});

describe("checkTemplate", () => {
  it("requires a reference to the key with secret-key, in Vault's wording", () => {
    expect(checkTemplate("{{ .SecretPath }}", "secret-key")).toEqual({
      ok: false,
      message: "secret name template is invalid: external name template should contain reference to the secret key",
    });
    expect(checkTemplate("{{ .SecretPath }}_{{ .SecretKey }}", "secret-key")).toMatchObject({
      ok: true,
      warning: null,
    });
    expect(checkTemplate('{{ .SecretPath }}{{ uppercase (replace "-" "_" .SecretKey) }}', "secret-key").ok).toBe(true);
  });

  it("refuses a reference to the key with secret-path", () => {
    expect(checkTemplate("{{ .SecretKey }}", "secret-path")).toMatchObject({ ok: false });
  });

  it("returns the syntax error of an invalid template", () => {
    expect(checkTemplate("{{ uuid }}", "secret-path")).toEqual({
      ok: false,
      message: "secret name template is invalid: uuid would give the secret a new name at every push",
    });
  });

  it.each(["", "  ", '{{ "" }}', "{{- ` ` -}}"])("refuses %j, which renders an empty name", (template) => {
    expect(checkTemplate(template, "secret-path")).toMatchObject({
      ok: false,
      message: expect.stringContaining("empty"),
    });
  });

  it("warns when different secrets would get the same name", () => {
    expect(checkTemplate("fixed", "secret-path")).toMatchObject({ ok: true, warning: expect.any(String) });
    expect(checkTemplate("{{ .SecretBaseName }}", "secret-path")).toMatchObject({ warning: expect.any(String) });
    expect(checkTemplate("{{ .SecretPath }}", "secret-path")).toMatchObject({ ok: true, warning: null });
    expect(checkTemplate("{{ .MountAccessor }}{{ .SecretBaseName }}", "secret-path")).toMatchObject({ warning: null });
  });

  it.each([...destinationTypes.values()])("accepts the default templates of $type without a warning", (type) => {
    for (const granularity of ["secret-path", "secret-key"] as const) {
      const checked = checkTemplate(type.defaults.template[granularity], granularity);
      expect(checked).toMatchObject({ ok: true, warning: null });
      if (!checked.ok) continue;
      const name = normalise(render(checked.template, fields), type.naming);
      const [separator] = name.match(/[^a-z0-9_]|_/i) ?? [];
      const key = granularity === "secret-key" ? `${separator}foo` : "";
      // A hierarchy may begin with a slash.
      expect(
        name
          .replace(/^\//, "")
          .toLowerCase()
          .replaceAll(/[^a-z0-9]/g, separator ?? ""),
      ).toBe(`vault/kv_1234/path/to/secret1${key}`.replaceAll(/[^a-z0-9]/g, separator ?? ""));
    }
  });
});

describe("normalisation", () => {
  const dashes = { allowed: /^[0-9A-Za-z-]$/, maxLength: 20, replacement: "-" };

  it("replaces each forbidden character without collapsing runs", () => {
    expect(normalise("a/b_é😀//c", dashes)).toBe("a-b-----c");
    expect(normalise("a b:c", cloudASm.naming)).toBe("a-b-c");
  });

  it("cuts to the maximum with a hash of the rest, so that long names stay different", () => {
    const [one, other] = ["x".repeat(30), `${"x".repeat(29)}y`].map((name) => normalise(name, dashes));
    expect(one).toMatch(/^x{12}[0-9a-f]{8}$/);
    expect(other).toMatch(/^x{12}[0-9a-f]{8}$/);
    expect(one).not.toBe(other);
    expect(normalise("x".repeat(20), dashes)).toBe("x".repeat(20));
    expect(normalise("é".repeat(600), cloudASm.naming)).toHaveLength(512);
  });

  it("spells the appended hash by the provider's rules", () => {
    const capitals = { ...dashes, adapt: (name: string) => name.toUpperCase() };
    const cut = normalise("x".repeat(30), capitals);
    expect(cut).toBe(cut.toUpperCase());
    expect(cut).toMatch(/^X{12}[0-9A-F]{8}$/);
    // The hash covers the normalised name.
    expect(cut).toBe(normalise("X".repeat(30), capitals));
  });
});

describe("baseName", () => {
  it.each([
    ["a/b/c", "c"],
    ["c", "c"],
    ["a/b/", "b"],
    ["", ""],
  ])("of %j is %j", (path, base) => {
    expect(baseName(path)).toBe(base);
  });
});
