import { settings } from "../settings.ts";

/**
 * A stub of the object with this name, in the jurisdiction of the deployment. Every stub is made here: the same name in
 * another jurisdiction is another object.
 * @param place where the first call creates the object, `LOCATION_HINT` if null; the platform ignores it in a jurisdiction
 */
export function objectStub<T extends Rpc.DurableObjectBranded | undefined>(
  env: object,
  namespace: DurableObjectNamespace<T>,
  name: string,
  place: DurableObjectLocationHint | null = null,
): DurableObjectStub<T> {
  const { JURISDICTION: jurisdiction, LOCATION_HINT: home } = settings(env);
  // Not called for none: workerd throws for every jurisdiction (https://github.com/cloudflare/workerd/issues/4167).
  if (jurisdiction !== "none") return namespace.jurisdiction(jurisdiction).getByName(name);
  const locationHint = place ?? home;
  return namespace.getByName(name, locationHint ? { locationHint } : {});
}

/** `JURISDICTION` is not the one with which the deployment began. Its objects there are new and empty, and stay so. */
export class JurisdictionChanged extends Error {
  override readonly name = "JurisdictionChanged";

  constructor(now: string, first: string) {
    super(
      `jurisdiction changed: JURISDICTION is ${now}, and the data of this deployment is in ${first}; nothing is ` +
        `written. Set JURISDICTION to ${first} again, or restore a snapshot into a new deployment`,
    );
  }
}

/** Also true for an error from another object's RPC, which keeps only the class name. */
export const isJurisdictionChanged = (failure: unknown): failure is Error =>
  failure instanceof Error && failure.name === "JurisdictionChanged";
