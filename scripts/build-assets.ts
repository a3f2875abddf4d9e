/**
 * Builds `build/assets`, the folder of files that the Worker serves beside itself (wrangler.toml, [assets]): the API
 * document, its page, and the web console below `ui/`. Files of the console carry a hash of their content in their
 * names. Takes 0.3 s; files that have not changed are not written again, so it may run while a service reads the
 * folder.
 */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import type { Plugin } from "esbuild";
import { engineDescriptions } from "../src/credentials/engines/descriptions.ts";
import { type ApiDocument, apiTypes, bodySchema } from "./api-types.ts";
import { readGuides } from "./guides.ts";

/** The bundler included in wrangler. */
const esbuild = createRequire(fileURLToPath(import.meta.resolve("wrangler")))("esbuild") as typeof import("esbuild");

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BUILD = join(ROOT, "build");
const ASSETS = join(BUILD, "assets");
const SOURCE = join(ROOT, "console/src");
/**
 * Budget of all scripts and styles of the console, compressed. Checks before writes take 1.5 KiB of it: stored secrets
 * that a save would remove, policies that were not read, patches, names of fields.
 */
export const CONSOLE_BUDGET_KIB = 162;

export interface ConsoleFile {
  /** Relative to `build/assets`. */
  readonly path: string;
  readonly bytes: number;
  readonly gzipBytes: number;
}

/** Builds everything; resolves with the console's files, the largest first. */
export async function buildAssets(): Promise<ConsoleFile[]> {
  const api = JSON.parse(readFileSync(join(ROOT, "docs/openapi.json"), "utf8")) as ApiDocument;
  const files = new Map<string, string | Uint8Array>();
  for (const name of ["openapi.json", "openapi.html"]) files.set(name, readFileSync(join(ROOT, "docs", name)));
  write(join(BUILD, "api-types.ts"), apiTypes(api));
  const data = new DataFiles();
  const guides = addGuides(data);
  const rights = data.add("rights", clusterRights(api));
  const forms = data.add("destinations", formSchema(api, "POST /v1/sys/sync/destinations/{type}/{name}"));
  const addresses = { "guides:index": guides, "rights:cluster": rights, "forms:destinations": forms };
  const built = await bundleConsole(api, addresses);
  for (const [path, content] of [...built, ...data.files]) files.set(path, content);
  for (const [path, content] of files) write(join(ASSETS, path), content);
  // Packages of the agent take longer, and are built by scripts/agent-packages.ts.
  for (const path of filesIn(ASSETS)) if (!files.has(path) && !path.startsWith("install/")) rmSync(join(ASSETS, path));
  return [...built]
    .map(([path, content]) => ({ path, bytes: Buffer.byteLength(content), gzipBytes: gzipSync(content).length }))
    .sort((a, b) => b.gzipBytes - a.gzipBytes);
}

/** One script per group of screens, shared chunks, one style sheet, and the page that loads them. */
async function bundleConsole(
  api: ApiDocument,
  addresses: Readonly<Record<string, string>>,
): Promise<Map<string, string | Uint8Array>> {
  const result = await esbuild.build({
    absWorkingDir: ROOT,
    entryPoints: { app: "console/src/main.tsx", style: "styles:all" },
    outdir: join(ASSETS, "ui/assets"),
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    target: ["chrome123", "firefox120", "safari17.5"],
    jsx: "automatic",
    jsxImportSource: "preact",
    minify: true,
    legalComments: "none",
    charset: "utf8",
    metafile: true,
    write: false,
    logLevel: "silent",
    plugins: [styles, schemas(api), descriptions, addressesOf(addresses)],
  });
  const files = new Map<string, string | Uint8Array>();
  for (const file of result.outputFiles) files.set(relative(ASSETS, file.path).replaceAll("\\", "/"), file.contents);
  const outputs = Object.entries(result.metafile.outputs);
  const urlOf = (path: string): string => `/${relative("build/assets", path).replaceAll("\\", "/")}`;
  const [app, style] = ["console/src/main.tsx", "styles:styles:all"].map((entry) => {
    const found = outputs.find(([, { entryPoint }]) => entryPoint === entry);
    if (!found) throw new Error(`the build has no output for ${entry}`);
    return found;
  }) as [[string, { imports: { path: string; kind: string }[] }], [string, unknown]];
  const preloads = app[1].imports
    .filter(({ kind }) => kind === "import-statement")
    .map(({ path }) => `<link rel="modulepreload" href="${urlOf(path)}">`);
  const page = readFileSync(join(SOURCE, "index.html"), "utf8")
    .replace("<!-- preloads -->", preloads.join("\n    "))
    .replaceAll("app.js", urlOf(app[0]))
    .replaceAll("app.css", urlOf(style[0]));
  return files.set("ui/index.html", page);
}

/**
 * All style sheets in one: those of `styles/` by name, then those of the screens. Screens load no separate style
 * sheets.
 */
const styles: Plugin = {
  name: "styles",
  setup(build) {
    build.onResolve({ filter: /^styles:all$/ }, ({ path }) => ({ path, namespace: "styles" }));
    build.onLoad({ filter: /.*/, namespace: "styles" }, () => {
      const found = filesIn(SOURCE).filter((path) => path.endsWith(".css"));
      const shared = found.filter((path) => path.startsWith("styles/")).sort();
      const own = found.filter((path) => !path.startsWith("styles/")).sort();
      const contents = [...shared, ...own].map((path) => `@import ${JSON.stringify(`./${path}`)};`).join("\n");
      return { contents, loader: "css", resolveDir: SOURCE };
    });
  },
};

/** Documents that the console reads when it needs one, and no part of its scripts. */
class DataFiles {
  readonly files = new Map<string, string>();

  /** @returns its address, which has a hash of the content */
  add(name: string, content: unknown): string {
    const text = JSON.stringify(content);
    const hash = createHash("sha256").update(text).digest("hex").slice(0, 8);
    const path = `ui/assets/${name.replaceAll("/", "-")}-${hash}.json`;
    this.files.set(path, text);
    return `/${path}`;
  }
}

/** A file for each guide. @returns the address of a list of all */
function addGuides(data: DataFiles): string {
  const guides = [...readGuides(join(ROOT, "docs"))];
  const list = guides.map(([name, { title, content }]) => ({ name, title, file: data.add(`guide-${name}`, content) }));
  return data.add("guides", list);
}

/** The rights of the cluster API by operations, such as `["GET /v1/node/[^/]+", "node:read"]`; policies have the others. */
const clusterRights = ({ paths }: ApiDocument): [operation: string, right: string][] =>
  Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([verb, operation]): [string, string][] => {
      const right = operation["x-sallyport-right"] ?? "";
      const pattern = path.replace(/\{.*?\}/g, "[^/]+");
      return /^$| on |^any/.test(right) ? [] : [[`${verb.toUpperCase()} ${pattern}`, right]];
    }),
  );

/** `import address from "NAME"`: the address of a file. */
const addressesOf = (addresses: Readonly<Record<string, string>>): Plugin => ({
  name: "addresses",
  setup(build) {
    build.onResolve({ filter: /^(guides|rights|forms):/ }, ({ path }) => ({ path, namespace: "address" }));
    build.onLoad({ filter: /.*/, namespace: "address" }, ({ path }) => ({
      contents: `export default ${JSON.stringify(addresses[path])}`,
    }));
  },
});

/** Keys of a schema that forms do not use: the service checks what it gets. None of them is the name of a field. */
const CHECKS: ReadonlySet<string> = new Set([
  "pattern",
  "format",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "maxProperties",
  "propertyNames",
  "exclusiveMinimum",
  "minimum",
  "maximum",
  "examples",
]);

/** Help texts of engines' fields, which forms take from the descriptions. */
const HELPS: ReadonlySet<string> = new Set(
  [...JSON.stringify(engineDescriptions).matchAll(/"help":("(?:[^"\\]|\\.)*")/g)].map(([, text = ""]) =>
    JSON.parse(text),
  ),
);

/**
 * The schema of a request body from the API document as forms read it, with its references resolved. A type that follows
 * from properties or from a choice is left out, and so are empty defaults.
 */
const formSchema = (api: ApiDocument, operation: string): unknown =>
  JSON.parse(
    JSON.stringify(bodySchema(api, operation), function (this: { properties?: unknown; enum?: unknown }, name, value) {
      return CHECKS.has(name) ||
        (name === "type" && (this.properties ?? this.enum)) ||
        (["additionalProperties", "default"].includes(name) && !value) ||
        (name === "description" && HELPS.has(value)) ||
        // A field that must be empty.
        (value?.const === "" && !Array.isArray(this))
        ? undefined
        : withoutEmpty(value);
    }),
  );

/** `import schema from "schema:PUT /v1/…"`: the schema of a form as a part of the scripts. */
const schemas = (api: ApiDocument): Plugin => ({
  name: "schemas",
  setup(build) {
    build.onResolve({ filter: /^schema:/ }, ({ path }) => ({
      path: path.slice("schema:".length),
      namespace: "schema",
    }));
    build.onLoad({ filter: /.*/, namespace: "schema" }, ({ path }) => ({
      contents: moduleOf(formSchema(api, path)),
    }));
  },
});

/** Members of descriptions of destination types that the console does not read: tables of the docs, and compatibility. */
const UNREAD: ReadonlySet<string> = new Set([
  "upstream",
  "example",
  "settings",
  "login",
  "reads",
  "effect",
  "limits",
  "permissions",
]);

/** Lists and marks of engine types that only the service reads. */
const UNREAD_OF_ENGINES: ReadonlySet<string> = new Set([
  "values",
  "writes",
  "logins",
  "answersWrites",
  "updatesRoles",
  "deletesAnyRole",
]);

/** Descriptions of destination and engine types without the members that the console does not read. */
const descriptions: Plugin = {
  name: "descriptions",
  setup(build) {
    build.onLoad({ filter: /src\/sync\/destinations\/[^/]+\/description\.ts$/ }, async ({ path }) => {
      const { description } = (await import(pathToFileURL(path).href)) as { description: object };
      const read = Object.fromEntries(Object.entries(description).filter(([name]) => !UNREAD.has(name)));
      return { contents: `export const description=${JSON.stringify(read)}` };
    });
    build.onLoad({ filter: /src\/credentials\/engines\/[^/]+\/description\.ts$/ }, async ({ path }) => {
      const { description } = (await import(pathToFileURL(path).href)) as { description: object };
      const text = JSON.stringify(description, function (this: object, name, value: unknown) {
        const isUnread = UNREAD_OF_ENGINES.has(name) && (value === true || Array.isArray(value));
        // The name of a field in the upstream dialect; that of a type is shown.
        return isUnread || (name === "upstream" && !("type" in this)) ? undefined : value;
      });
      return { contents: moduleOf(JSON.parse(text)).replace(/export default (.*)$/s, "export const description=$1") };
    });
  },
};

/** A schema without null and the empty choice: a form has one of its own for an empty field. */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((each) => each !== "");
  const { anyOf, ...rest } = (value ?? {}) as { anyOf?: readonly { type?: string }[] };
  const others = Array.isArray(anyOf) ? anyOf.filter(({ type }) => type !== "null") : [];
  return others.length === 1 ? { ...others[0], ...rest } : value;
}

/** A module with a value as its default export, in which equal parts are one constant: types share most of their fields. */
function moduleOf(whole: unknown): string {
  const counts = new Map<string, number>();
  const names = new Map<string, string>();
  const count = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const text = JSON.stringify(value);
    const before = counts.get(text) ?? 0;
    counts.set(text, before + 1);
    if (before === 0) for (const part of Object.values(value)) count(part);
  };
  const constants: string[] = [];
  const write = (value: unknown): string => {
    if (typeof value !== "object" || value === null) return JSON.stringify(value);
    const text = JSON.stringify(value);
    const known = names.get(text);
    if (known !== undefined) return known;
    const written = Array.isArray(value)
      ? `[${value.map(write).join()}]`
      : `{${Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}:${write(part)}`)}}`;
    if ((counts.get(text) ?? 0) < 2) return written;
    const name = `part${names.size}`;
    names.set(text, name);
    constants.push(`const ${name}=${written};`);
    return name;
  };
  count(whole);
  const written = write(whole);
  return `${constants.join("")}export default ${written}`;
}

function filesIn(dir: string): string[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { recursive: true, encoding: "utf8" })
    .filter((path) => statSync(join(dir, path)).isFile())
    .map((path) => path.replaceAll("\\", "/"));
}

function write(path: string, content: string | Uint8Array): void {
  const bytes = Buffer.from(content);
  if (existsSync(path) && readFileSync(path).equals(bytes)) return;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const files = await buildAssets();
  if (process.argv.includes("--sizes")) {
    for (const { path, gzipBytes } of files) console.log(`${(gzipBytes / 1024).toFixed(1).padStart(6)} KiB  ${path}`);
    const total = files.reduce((sum, { gzipBytes }) => sum + gzipBytes, 0) / 1024;
    console.log(`${total.toFixed(1).padStart(6)} KiB  in all, compressed, of ${CONSOLE_BUDGET_KIB}`);
  }
}
