import { contract } from "./cases.ts";
import type { RemoteType } from "./subject.ts";

const head = `# The contract of destination types

The rows that test/http/destination-contract.test.ts runs for each destination type, with its real
adapter and the double of its provider. You need this page when you
[add a type](add-a-destination.md) or a row. For example, "a lost answer" means that the call took
effect and the connection was cut: the repeat leaves one object with the right value.

\`yes\`: a test of the row runs for the type; otherwise why the row does not apply. Each outcome is
also checked for values, credentials and the size of its reference. The test writes this page when it
runs with \`-u\`.
`;

const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

/** docs/internals/destination-contract.md. */
export function contractPage(types: readonly RemoteType[]): string {
  const names = types.map(({ type }) => `\`${type}\``);
  const parts = Object.entries(contract).map(([part, cases]) => {
    const rows = cases.map(({ name, unless }) => line([name, ...types.map((type) => unless?.(type) ?? "yes")]));
    const title = part.slice(0, 1).toUpperCase() + part.slice(1);
    return [`## ${title}`, "", line(["Row", ...names]), `|${"---|".repeat(names.length + 1)}`, ...rows].join("\n");
  });
  return `${[head, ...parts.flatMap((part) => [part, ""])].join("\n").trimEnd()}\n`;
}
