import { bodyOf, type Loopback, startLoopback } from "./loopback.ts";
import type { Place, StandIn } from "./stand-in.ts";

/** A call of a place over HTTP, and its result: objects as a list of name and object. */
const calls: Readonly<Record<string, (place: Place, given: readonly unknown[]) => unknown>> = {
  objects: (place) => [...place.objects()],
  write: (place, [name, value]) => place.write(String(name), String(value)),
  writeShown: (place, [name, value]) => (place.writeShown ?? place.write)(String(name), String(value)),
  remove: (place, [name]) => place.remove(String(name)),
  fail: (place, [fault, times]) => place.fail(fault as Parameters<Place["fail"]>[0], Number(times)),
  writes: (place) => place.writes(),
};

/**
 * The stand-ins for tests inside the Workers runtime. `POST /<type>` opens a place and answers its id and bodies;
 * `POST /<id>/<method>` with the list of arguments calls a method of `Place`.
 */
export async function startPlacesServer(standIns: readonly StandIn[]): Promise<Loopback> {
  const places = new Map<string, Place>();

  async function answer(path: string, body: string): Promise<unknown> {
    const [target = "", method = ""] = path.slice(1).split("/");
    const standIn = standIns.find(({ type }) => type === target);
    if (standIn && method === "") {
      const place = await standIn.open();
      const id = String(places.size);
      places.set(id, place);
      const { body: valid, wrongCredentials, missing } = place;
      return { id, body: valid, wrongCredentials, missing };
    }
    const place = places.get(target);
    const call = calls[method];
    if (!place || !call) throw new Error(`no place or method at ${path}`);
    return call(place, JSON.parse(body) as unknown[]) ?? null;
  }

  return startLoopback(async (incoming, outgoing) => {
    const body = String(await bodyOf(incoming));
    try {
      outgoing.end(JSON.stringify(await answer(incoming.url ?? "", body)));
    } catch (problem) {
      outgoing.writeHead(500).end(String(problem));
    }
  });
}
