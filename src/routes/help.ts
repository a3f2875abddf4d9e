import { encodePath } from "../platform/http/target.ts";
import { storedAnswer } from "./server/respond.ts";
import type { AnyRoute } from "./server/route.ts";
import type { Help } from "./server/route-tables.ts";

/**
 * Help on a path for `?help=1` (`vault path-help`), from the published API document: it reveals no stored data.
 */

interface Described {
  readonly summary: string;
  readonly description?: string;
  readonly "x-sallyport-right"?: string;
}

/** Where the document describes a table's routes: at the default path of their mount. */
const documentedAt = (root: string): string => (root === "/v1/{kv}" ? "/v1/secret" : root.replace(/[{}]/g, ""));

const braced = (path: string): string => path.replace(/:(\w+)\+?/g, "{$1}");

type Paths = Readonly<Record<string, Readonly<Record<string, Described>>>>;

/** One operation as text. */
function describe(verb: string, { summary, description, "x-sallyport-right": right = "none" }: Described): string {
  const about = description === undefined ? [] : [`    ${description}`];
  return [`${verb}: ${summary}`, ...about, `    Needs: ${right}`].join("\n");
}

/** The help on a path: its operations, or the paths below it. */
export const helpOn: Help = async ({ env }, { table, root, path }) => {
  const found = await env.ASSETS.fetch("https://assets/openapi.json");
  const { paths } = (await found.json()) as { paths: Paths };
  const at = documentedAt(root);
  const descriptionOf = ({ verb, path: pattern }: AnyRoute): Described | undefined => {
    const item = paths[`${at}${braced(pattern)}${verb === "LIST" ? "/" : ""}`] ?? {};
    return verb === "LIST" ? item["get"] : (item[verb.toLowerCase()] ?? (verb === "POST" ? item["put"] : undefined));
  };
  const here = table.at(path);
  const operations = here.flatMap((route) => {
    const described = descriptionOf(route);
    return described ? [describe(route.verb, described)] : [];
  });
  if (operations.length > 0) return helpText(path, [`Path: ${braced(here[0]?.path ?? "").slice(1)}`, ...operations]);
  const prefix = path.replace(/\/$/, "");
  const below = table.routes.filter(({ path: pattern }) => pattern.startsWith(`${prefix}/`));
  if (below.length === 0) return null;
  const names = [...new Set(below.map(({ path: pattern }) => braced(pattern).slice(1)))].sort();
  return helpText(path, ["Paths:", names.map((name) => `    ${name}`).join("\n")]);
};

function helpText(path: string, sections: readonly string[]): Response {
  const help = [`Request: ${encodePath(path.replace(/^\//, ""))}`, ...sections].join("\n\n");
  return storedAnswer(JSON.stringify({ help: `${help}\n`, see_also: null }));
}
