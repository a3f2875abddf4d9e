/** Capabilities of a rule (https://developer.hashicorp.com/vault/docs/concepts/policies#capabilities). */
const CAPABILITIES = new Set([
  "create",
  "read",
  "update",
  "patch",
  "delete",
  "list",
  "sudo",
  "deny",
  "recover",
  "subscribe",
]);

/**
 * A mistake in the form of a policy, as far as its text alone shows one; null without a mistake. The service checks
 * the policy when it is saved.
 */
export function policyProblem(text: string): string | null {
  const open: { readonly sign: string; readonly line: number }[] = [];
  let line = 1;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at] ?? "";
    if (sign === "\n") line++;
    else if (sign === "#" || text.startsWith("//", at)) {
      at = endOfLine(text, at) - 1;
    } else if (sign === '"') {
      const end = endOfText(text, at);
      if (end === -1) return `Line ${line}: the text in quotes does not end.`;
      at = end;
    } else if (sign === "{" || sign === "[") open.push({ sign, line });
    else if (sign === "}" || sign === "]") {
      const last = open.pop();
      if (!last || (last.sign === "{") !== (sign === "}")) return `Line ${line}: ${sign} closes nothing.`;
    }
  }
  const last = open.at(-1);
  if (last) return `Line ${last.line}: ${last.sign} is not closed.`;
  for (const [, list = ""] of text.matchAll(/capabilities\s*=\s*\[([^\]]*)\]/g)) {
    const unknown = [...list.matchAll(/"([^"]*)"/g)]
      .map(([, name = ""]) => name)
      .find((name) => !CAPABILITIES.has(name));
    if (unknown !== undefined) return `${unknown} is no capability.`;
  }
  return null;
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end === -1 ? text.length : end;
}

/** Where the text that begins at a quote ends; -1 when it does not end in its line. */
function endOfText(text: string, from: number): number {
  for (let at = from + 1; at < text.length && text[at] !== "\n"; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at;
  }
  return -1;
}
