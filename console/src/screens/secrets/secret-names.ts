/** Names for a field with the path of a secret. */
import { apiFull } from "../../api/client.ts";
import { useResource } from "../../lib/resource.ts";

const MAX_NAMES = 500;

/** Names in the folder of the path that is being typed. @param mount empty: none */
export function useSecretNames(mount: string, typed: string): readonly string[] {
  const folder = typed.slice(0, typed.lastIndexOf("/") + 1);
  const { value } = useResource(
    ["names", mount, folder],
    async (signal) => {
      const path = folder.replace(/\/$/, "");
      const options = { mount, signal, quiet: true, accept: [404, 403], query: { limit: MAX_NAMES } } as const;
      const { status, body } = path
        ? await apiFull("LIST /v1/secret/metadata/{path}", { ...options, path: { path } })
        : await apiFull("LIST /v1/secret/metadata", options);
      return status === 200 ? body.data.keys.map((name) => folder + name) : [];
    },
    { skip: mount === "" },
  );
  return value ?? [];
}
