import { table } from "../command.ts";

/** Kinds of objects that an import moves. */
export type Kind =
  | "namespace"
  | "mount"
  | "secret"
  | "policy"
  | "engine"
  | "role"
  | "app"
  | "destination"
  | "association";

/** Results of an import, or its plan with `--dry-run`. */
type Action =
  | "written"
  | "unchanged"
  /** The service has something else there: it is kept. */
  | "differs"
  /** Needs something from the operator, such as credentials that the source does not show. */
  | "incomplete"
  /** Of another kind than an import moves. */
  | "skipped"
  | "failed";

interface Entry {
  readonly kind: Kind | "source";
  /** Namespace and path. */
  readonly name: string;
  readonly action: Action;
  readonly reason: string;
}

/** Collects names, counts and reasons, never values. */
export class Report {
  readonly isPlan: boolean;
  readonly entries: Entry[] = [];
  readonly #counts = new Map<Kind, Map<Action, number>>();
  versions = 0;
  /** Versions without a value at the source. */
  blank = 0;

  constructor(isPlan: boolean) {
    this.isPlan = isPlan;
  }

  add(kind: Kind, name: string, action: Action, reason = ""): void {
    const counts = this.#counts.get(kind) ?? new Map<Action, number>();
    this.#counts.set(kind, counts.set(action, (counts.get(action) ?? 0) + 1));
    // Secrets may be many: those that need no attention are counted only.
    const isNamed = (action !== "written" && action !== "unchanged") || (this.isPlan && kind !== "secret");
    if (isNamed) this.entries.push({ kind, name, action, reason });
  }

  /** Something of the source that is not imported, or could not be read. */
  addSource(name: string, action: "skipped" | "failed", reason: string): void {
    this.entries.push({ kind: "source", name, action, reason });
  }

  /** Whether nothing was found to import. */
  get isEmpty(): boolean {
    return this.#counts.size === 0 && this.entries.length === 0;
  }

  /** Whether everything that an import moves is there. */
  get isComplete(): boolean {
    return !this.entries.some(({ action }) => action === "differs" || action === "incomplete" || action === "failed");
  }

  /** In the order of kinds, then of names: work is done side by side. */
  get #sorted(): Entry[] {
    const rank = ({ kind, name }: Entry) => `${KINDS.indexOf(kind)} ${name}`;
    return [...this.entries].sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  }

  toJSON(): object {
    const counts = [...this.#counts].map(([kind, each]) => [kind, Object.fromEntries(each)]);
    return {
      dry_run: this.isPlan,
      complete: this.isComplete,
      counts: Object.fromEntries(counts),
      versions: this.versions,
      versions_without_value: this.blank,
      entries: this.#sorted,
    };
  }

  lines(): string[] {
    const header = ["", this.isPlan ? "to write" : "written", "unchanged", "differ", "incomplete", "skipped", "failed"];
    const actions: readonly Action[] = ["written", "unchanged", "differs", "incomplete", "skipped", "failed"];
    const ordered = [...this.#counts].sort(([a], [b]) => KINDS.indexOf(a) - KINDS.indexOf(b));
    const rows = ordered.map(([kind, counts]) => [
      PLURALS[kind],
      ...actions.map((action) => String(counts.get(action) ?? 0)),
    ]);
    const entries = this.#sorted.map(({ kind, name, action, reason }) => [
      kind,
      action === "written" ? "to write" : action,
      name,
      reason,
    ]);
    return [
      ...table([header, ...rows]),
      `versions ${this.isPlan ? "to write" : "written"}: ${this.versions}, without a value at the source: ${this.blank}`,
      ...(entries.length > 0 ? ["", ...table(entries)] : []),
    ];
  }
}

const KINDS: readonly Entry["kind"][] = [
  ...([
    "source",
    "namespace",
    "mount",
    "secret",
    "policy",
    "engine",
    "role",
    "app",
    "destination",
    "association",
  ] as const),
];

const PLURALS: Readonly<Record<Kind, string>> = {
  namespace: "namespaces",
  mount: "mounts",
  secret: "secrets",
  policy: "policies",
  engine: "engines",
  role: "roles",
  app: "applications",
  destination: "destinations",
  association: "associations",
};
