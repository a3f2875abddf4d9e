import type { Granularity, SecretRef } from "../../contracts/sync-tasks.ts";
import type { DestinationType } from "../destinations/destination-type.ts";
import { baseName, normalise, parseTemplate, render } from "./naming.ts";

/** The inputs of external names, besides the secret. */
export interface NamingScope {
  readonly namespace: string;
  readonly name: string;
  /** The type as the destination's creator spelled it. */
  readonly word: string;
  readonly granularity: Granularity;
  /** The template as written; empty = the type's default. */
  readonly template: string;
}

/** The desired state of one external object of a secret: its name. */
export interface DesiredObject {
  readonly subKey: string;
  readonly name: string;
  /** Two names with the same collision key are one object to the provider. */
  readonly collisionKey: string;
  /** Why the provider refuses the name; null when the name is valid. */
  readonly refused: string | null;
}

const EMPTY = "its external name would be empty";

/** The most objects of one secret; a secret with more keys is refused. */
const MAX_KEYS = 1_000;

/** The refusal of a secret with too many keys for granularity secret-key; null when it is accepted. */
export const refusedKeys = (count: number): string | null =>
  count <= MAX_KEYS ? null : `the secret has ${count} keys; with granularity secret-key at most ${MAX_KEYS} are pushed`;

/**
 * The names of a secret's objects at a destination: the rendered template, normalised by the rules of the type.
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
      collisionKey: naming.collisionKey?.(name) ?? name,
      refused: name === "" ? EMPTY : (naming.refuse?.(name) ?? null),
    };
  });
}
