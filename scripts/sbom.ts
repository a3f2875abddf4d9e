/**
 * The bill of materials of a release (CycloneDX 1.5): every package that the lock file installs without development
 * dependencies. From the lock alone, so that it is the same everywhere; `npm sbom --omit=dev` of npm 11 leaves out
 * packages that a development dependency shares.
 */
import { createHash } from "node:crypto";

interface Locked {
  readonly name?: string;
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly dev?: boolean;
  /** Needed for development, and elsewhere only by what is optional. */
  readonly devOptional?: boolean;
  readonly link?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Places in the tree, such as `node_modules/a/node_modules/b`; the root is the empty text. */
export type Lock = Readonly<Record<string, Locked>>;

const FOLDER = "node_modules/";

export function sbom(lock: Lock, built: string): object {
  const places = Object.keys(lock).filter((place) => isShipped(lock[place]) && lock[place]?.link !== true);
  const refOf = (place: string) => purl(nameOf(place, lock[place] ?? {}), lock[place]?.version ?? "");
  const component = (place: string) => {
    const { version = "", license, integrity } = lock[place] ?? {};
    return {
      type: place === "" ? "application" : "library",
      "bom-ref": refOf(place),
      ...nameParts(place, lock),
      version,
      ...(license && {
        licenses: [/ (?:OR|AND|WITH) /.test(license) ? { expression: license } : { license: { id: license } }],
      }),
      purl: refOf(place),
      ...(integrity && { hashes: hashesIn(integrity) }),
    };
  };
  // A package in two places of the tree is one component.
  const unique = new Map(places.map((place) => [refOf(place), place]));
  // The release itself, and the command line, whose package has its name.
  unique.delete(refOf(""));
  const components = [...unique].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, place]) => component(place));
  const needs = new Map<string, Set<string>>(places.map((place) => [refOf(place), new Set()]));
  for (const place of places) {
    const { dependencies = {}, optionalDependencies = {} } = lock[place] ?? {};
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const found = resolved(lock, place, name);
      if (found !== undefined && isShipped(lock[found])) needs.get(refOf(place))?.add(refOf(found));
    }
  }
  const body = {
    metadata: { timestamp: built, component: component("") },
    components,
    dependencies: [...needs]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([ref, on]) => ({ ref, dependsOn: [...on].sort() })),
  };
  const head = { bomFormat: "CycloneDX", specVersion: "1.5", serialNumber: `urn:uuid:${uuidOf(body)}`, version: 1 };
  return { $schema: "http://cyclonedx.org/schema/bom-1.5.schema.json", ...head, ...body };
}

const isShipped = (locked: Locked | undefined): boolean => !locked?.dev && !locked?.devOptional;

/** The place that a package's import of `name` leads to, as Node resolves it. */
function resolved(lock: Lock, place: string, name: string): string | undefined {
  for (let at = place; ; at = at.slice(0, Math.max(0, at.lastIndexOf(FOLDER) - 1))) {
    const candidate = `${at === "" ? "" : `${at}/`}${FOLDER}${name}`;
    const found = lock[candidate];
    if (found?.link) return found.resolved;
    if (found) return candidate;
    if (at === "") return undefined;
    if (!at.includes(FOLDER)) at = "";
  }
}

/** An alias (`npm:name@1.2.3`) has the package's own name in the lock. */
const nameOf = (place: string, { name }: Locked): string =>
  name ?? place.slice(place.lastIndexOf(FOLDER) + FOLDER.length);

function nameParts(place: string, lock: Lock): object {
  const name = nameOf(place, lock[place] ?? {});
  const [, group, rest] = /^(@[^/]+)\/(.+)$/.exec(name) ?? [];
  return group ? { group, name: rest } : { name };
}

const purl = (name: string, version: string): string => `pkg:npm/${name.replace("@", "%40")}@${version}`;

function hashesIn(integrity: string): object[] {
  return integrity.split(" ").flatMap((text) => {
    const [, size, content = ""] = /^sha(512|256|1)-(.+)$/.exec(text) ?? [];
    return size ? [{ alg: `SHA-${size}`, content: Buffer.from(content, "base64").toString("hex") }] : [];
  });
}

/** A UUID of version 5's form from the content, so that an equal release has an equal number. */
function uuidOf(content: object): string {
  const hex = createHash("sha256").update(JSON.stringify(content)).digest("hex");
  const variant = ((Number.parseInt(hex[16] ?? "0", 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
