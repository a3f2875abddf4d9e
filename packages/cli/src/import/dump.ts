import { membersOf } from "../../../relay/src/json-text.ts";
import { documentsOf } from "../json.ts";
import { type History, NO_SETTINGS, type Settings, settingsIn, stateOf } from "./history.ts";

/**
 * Secrets from files that scripts around `vault kv get -format=json` write. Accepted documents, one after the other:
 *
 *   {"path": "secret/app", "data": {"data": {…}, "metadata": {"version": 3, …}}}   version 2, with the path added
 *   {"path": "secret/app", "data": {…}}                                              version 1, or plain fields
 *   {"secret/app": {"data": …}, "secret/other": {…}}                                 any of these by path
 */

export interface Dumped {
  readonly path: string;
  readonly history: History;
}

interface Version {
  readonly path: string;
  /** 0 without a number. */
  readonly number: number;
  /** Null for a deleted version. */
  readonly value: string | null;
  readonly settings: Settings;
}

/** The file is not a dump. The message never quotes it. */
export class InvalidDump extends Error {}

/**
 * Versions of one path are numbered in their order, from 1. `path` is for one document without its own.
 * @throws InvalidDump
 */
export function readDump(text: string, path: string | undefined): Dumped[] {
  const byPath = new Map<string, Version[]>();
  for (const version of parsed(text).flatMap((document, at) => versionsOf(document, at, path)))
    byPath.set(version.path, [...(byPath.get(version.path) ?? []), version]);
  if (byPath.size === 0) throw new InvalidDump("has no secret");
  return [...byPath].map(([name, versions]) => ({ path: name, history: historyOf(name, versions) }));
}

function parsed(text: string): string[] {
  try {
    return documentsOf(text);
  } catch {
    throw new InvalidDump("must be JSON as `vault kv get -format=json` prints it");
  }
}

function versionsOf(document: string, at: number, given: string | undefined): Version[] {
  if (!document.startsWith("{")) throw new InvalidDump(`document ${at + 1}: must be an object`);
  const members = membersOf(document);
  const named = members.get("path");
  if (named?.startsWith('"')) return [versionOf(JSON.parse(named), members)];
  if (members.has("data") && members.has("request_id")) {
    if (given === undefined) throw new InvalidDump(`document ${at + 1}: has no path: add "path", or give --path`);
    return [versionOf(given, members)];
  }
  return [...members].map(([path, secret]) => {
    if (!secret.startsWith("{")) throw new InvalidDump(`document ${at + 1}: has neither "path" nor secrets by path`);
    const inner = membersOf(secret);
    return versionOf(path, inner.has("data") ? inner : new Map([["data", secret]]));
  });
}

function versionOf(path: string, document: ReadonlyMap<string, string>): Version {
  const data = document.get("data") ?? "null";
  const clean = path.replace(/^\/+|\/+$/g, "");
  if (!data.startsWith("{")) throw new InvalidDump(`${clean}: data must be an object`);
  const members = membersOf(data);
  const metadata = members.get("metadata") ?? "";
  if (members.size !== 2 || !members.has("data") || !metadata.startsWith("{"))
    return { path: clean, number: 0, value: data, settings: NO_SETTINGS };
  const fields = JSON.parse(metadata);
  const value = members.get("data") ?? "null";
  const { custom_metadata } = settingsIn(fields);
  return {
    path: clean,
    number: Number(fields.version ?? 0),
    settings: { ...NO_SETTINGS, custom_metadata },
    value: stateOf(fields) === "live" && value.startsWith("{") ? value : null,
  };
}

/** Of several documents with one number the last one counts. */
function historyOf(path: string, versions: readonly Version[]): History {
  const ordered = [...new Map(versions.map((each) => [each.number, each])).values()].sort(
    (a, b) => a.number - b.number,
  );
  if (ordered.length > 1 && ordered[0]?.number === 0)
    throw new InvalidDump(`${path}: occurs with and without a version number`);
  const living = ordered.filter(({ value }) => value !== null);
  return {
    current: living.length,
    states: new Map(living.map((_version, at) => [at + 1, "live"])),
    settings: ordered.at(-1)?.settings ?? NO_SETTINGS,
    value: async (version) => living[version - 1]?.value ?? null,
  };
}
