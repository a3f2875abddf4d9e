/** Why pushes failed: the log holds no text of an error, the destination's secrets do. */
import { api, apiFull } from "../../api/client.ts";
import { useResource } from "../../lib/resource.ts";
import { type Line, syncOf, textOf } from "./lines.ts";

/** Destinations that are asked for their reasons. */
const MAX_DESTINATIONS = 5;

const keyOf = (line: Line): string => `${textOf(line, "destination")} ${textOf(line, "association")}`;

/** Reasons that still hold, by line. */
export function useFailures(lines: readonly Line[]): (line: Line) => string {
  const failed = lines.filter((line) => syncOf(line) === "failed");
  const destinations = [...new Set(failed.map((line) => textOf(line, "destination")))]
    .sort()
    .slice(0, MAX_DESTINATIONS);
  const { value } = useResource(
    ["failures", destinations, failed.length],
    async (signal) => {
      const options = { namespace: "", quiet: true, signal };
      const { body } = await apiFull("LIST /v1/sys/sync/destinations", { ...options, accept: [404] });
      const names: Readonly<Record<string, readonly string[]>> = body.data?.key_info ?? {};
      const found = new Map<string, string>();
      for (const destination of destinations) {
        const [type = "", name = ""] = destination.split("/");
        if (!names[`${type}/`]?.includes(name) && !names[type]?.includes(name)) continue;
        const path = { type, name };
        const { data } = await api("GET /v1/sys/sync/destinations/{type}/{name}/associations", { ...options, path });
        for (const { accessor, secret_name, error_message } of Object.values(data.associated_secrets))
          if (error_message) found.set(`${destination} ${accessor}/${secret_name}`, error_message);
      }
      return found;
    },
    { skip: destinations.length === 0 },
  );
  return (line) => (syncOf(line) === "failed" && value?.get(keyOf(line))) || "";
}
