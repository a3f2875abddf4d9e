import { MARKER_TAG } from "../../../src/sync/destinations/destination-type.ts";
import type { KnownKey } from "../cloud-a-sts/signature.ts";
import type { Place, StandIn } from "../stand-in.ts";
import { type ParameterAccount, startParameterStore } from "./server.ts";

/** AWS SSM Parameter Store, with a key of an account. */
export async function startStandIn({ awsKeys }: { readonly awsKeys: KnownKey[] }): Promise<StandIn> {
  const double = await startParameterStore();
  return {
    type: "cloud-a-ps",
    settings: { CLOUD_A_PS_URL: double.url, CLOUD_A_STS_URL: double.url },
    open() {
      const account = double.open();
      awsKeys.push(account.key);
      return placeOf(account);
    },
    close: () => double.close(),
  };
}

function placeOf(account: ParameterAccount): Place {
  const { accessKeyId, secretAccessKey } = account.key;
  const body = {
    access_key_id: accessKeyId,
    secret_access_key: secretAccessKey,
    region: "eu-west-1",
    tier: "Intelligent-Tiering",
  };
  return {
    body,
    wrongCredentials: { ...body, secret_access_key: "wrong" },
    missing: { ...body, region: "eu-north-1" },
    objects: () =>
      new Map(
        [...account.parameters].map(([name, { value, tags }]) => [
          name,
          { value, owned: tags.has(MARKER_TAG), tags: Object.fromEntries(tags) },
        ]),
      ),
    write(name, value) {
      const isKnown = account.parameters.has(name);
      account.call("PutParameter", { Name: name, Value: value, Type: "SecureString", Overwrite: isKnown });
      account.parameters.get(name)?.tags.delete(MARKER_TAG);
    },
    remove: (name) => void account.call("DeleteParameter", { Name: name }),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
