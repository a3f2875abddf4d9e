import type { SecretRef } from "./association.ts";
import type { DestinationType, Granularity } from "./destinations/destination-type.ts";
import { baseName, normalise, parseTemplate, render } from "./naming.ts";

/** What the names of a destination are made from, besides the secret. */
export interface NamingScope {
  readonly namespace: string;
  readonly name: string;
  /** The type as the destination's creator called it. */
  readonly word: string;
  readonly granularity: Granularity;
  /** As written; empty = the type's default. */
  readonly template: string;
}

/** An external object that a secret should have. */
export interface DesiredObject {
  readonly subKey: string;
  readonly name: string;
  readonly fold: string;
  /** Why the provider would never take the name. */
  readonly refused: string | null;
}

const EMPTY = "its external name would be empty";

/** So many objects a secret may have: one more makes it a refusal rather than a push that never ends. */
const MAX_KEYS = 1_000;

/** Why a secret with so many keys is not pushed with granularity secret-key; null when it is. */
export const refusedKeys = (count: number): string | null =>
  count <= MAX_KEYS ? null : `the secret has ${count} keys; with granularity secret-key at most ${MAX_KEYS} are pushed`;

/**
 * What a secret's objects are called at a destination: the template in force, spelled as the type allows.
 * @param keys the secret's top-level keys; ignored with granularity secret-path, where there is one object
 */
export function desiredObjects(
  scope: NamingScope,
  type: DestinationType<unknown>,
  secret: SecretRef,
  keys: readonly string[],
): DesiredObject[] {
  const parsed = parseTemplate(scope.template || type.defaults.template[scope.granularity]);
  // Templates are checked when they are written, so this one parses.
  if (!parsed.ok) throw new Error(parsed.message);
  const mount = secret.mountPath.replace(/\/$/, "");
  const namespace = scope.namespace.replace(/\/$/, "");
  const { naming } = type;
  return (scope.granularity === "secret-key" ? keys : [""]).map((subKey) => {
    const rendered = render(parsed.template, {
      DestinationType: scope.word,
      DestinationName: scope.name,
      NamespacePath: namespace,
      NamespaceBaseName: baseName(namespace),
      NamespaceID: namespace || "root",
      MountPath: mount,
      MountBaseName: baseName(mount),
      MountAccessor: secret.mountAccessor,
      SecretPath: secret.secretName,
      SecretBaseName: baseName(secret.secretName),
      SecretKey: subKey,
    });
    const name = normalise(rendered, naming);
    return {
      subKey,
      name,
      fold: naming.fold?.(name) ?? name,
      refused: name === "" ? EMPTY : (naming.refuse?.(name) ?? null),
    };
  });
}
