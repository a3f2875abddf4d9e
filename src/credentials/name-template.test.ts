import { describe, expect, it } from "vitest";
import { nameOf } from "./name-template.ts";

const fields = { Type: "STS", DisplayName: "token-Ann", PolicyName: "deploy" };
const named = (template: string): string => {
  const name = nameOf(template, fields);
  return name.ok ? name.value : `refused: ${name.message}`;
};

describe("nameOf", () => {
  it("fills fields, functions, pipes and conditions", () => {
    const rows: readonly (readonly [template: string, name: string | RegExp])[] = [
      ["plain", "plain"],
      ["{{.DisplayName}}-{{ .PolicyName }}", "token-Ann-deploy"],
      ["{{ .DisplayName | uppercase | truncate 7 }}", "TOKEN-A"],
      ['{{ printf "%s_%s" (.PolicyName) (lowercase .DisplayName) }}', "deploy_token-ann"],
      ["{{ .DisplayName | replace `-` `.` }}", "token.Ann"],
      ['{{ if (eq .Type "STS") }}a{{ else }}b{{ end }}', "a"],
      ['{{ if eq .Type "IAM" }}a{{ else if eq .Type "STS" }}c{{ else }}b{{ end }}', "c"],
      ['{{ if ne .Type "STS" }}a{{ end }}.', "."],
      ["a {{- .Type -}} b", "aSTSb"],
      ['{{ "}}" }}', "}}"],
      ["{{ random 20 }}", /^[A-Za-z0-9]{20}$/],
      ["{{unix_time}}", /^\d{10}$/],
      ["{{ uuid }}", /^[0-9a-f-]{36}$/],
      ['{{ timestamp "2006-01-02" }}', /^\d{4}-\d\d-\d\d$/],
      ['{{ "0123456789abcdef" | truncate_sha256 12 }}', /^0123[0-9a-f]{8}$/],
      ['{{ "a" | sha256 | truncate 8 }}{{ "a" | base64 }}', "ca978112YQ=="],
      ['{{ printf "%s-%s" (unix_time) (random 20) | truncate 16 }}', /^\d{10}-[A-Za-z0-9]{5}$/],
    ];
    for (const [template, name] of rows) {
      if (typeof name === "string") expect(named(template), template).toBe(name);
      else expect(named(template), template).toMatch(name);
    }
  });

  it("refuses other templates", () => {
    const rows = [
      "{{ .Other }}",
      "{{ shell `x` }}",
      "{{ constructor }}",
      "{{ .Type",
      "{{ (.Type }}",
      "{{ if .Type }}a",
      "{{ end }}",
      "{{ .Type | .Type }}",
      "{{ random 5000 }}",
      "{{ random }}",
      "{{ $x }}",
      "a }} b",
    ];
    for (const template of rows) expect(named(template), template).toMatch(/^refused: /);
  });
});
