import type { SecretRef } from "./association.ts";
import { effectiveTemplate } from "./definition.ts";
import type { DestinationType } from "./destinations/index.ts";
import { baseName, normalise, parseTemplate, render } from "./naming.ts";
import type { DestinationRow } from "./schema.ts";

/** What a secret is called at a destination: the template in force, spelled as the destination's type allows. */
export function externalName(row: DestinationRow, type: DestinationType<unknown>, secret: SecretRef): string {
  const template = parseTemplate(effectiveTemplate(type, { template: row.template, granularity: "secret-path" }));
  // Templates are checked when they are written, so this one parses.
  if (!template.ok) throw new Error(template.message);
  const mount = secret.mountPath.replace(/\/$/, "");
  const name = render(template.template, {
    DestinationType: row.type,
    DestinationName: row.name,
    NamespacePath: row.namespace,
    NamespaceBaseName: baseName(row.namespace),
    NamespaceID: row.namespace === "" ? "root" : row.namespace.replace(/\/$/, ""),
    MountPath: mount,
    MountBaseName: baseName(mount),
    MountAccessor: secret.mountAccessor,
    SecretPath: secret.secretName,
    SecretBaseName: baseName(secret.secretName),
    SecretKey: "",
  });
  return normalise(name, type.naming);
}
