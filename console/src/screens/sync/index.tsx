import { place } from "../../app/router.ts";
import { Board } from "./board.tsx";
import { CreateDestination } from "./create.tsx";
import { DestinationPage } from "./destination.tsx";

/** `/ui/sync`, `/ui/sync/new/TYPE` and `/ui/sync/TYPE/NAME`. */
export default function SyncScreen() {
  const [first, second] = place.value.segments;
  if (first === "new") return <CreateDestination type={second ?? ""} />;
  if (first && second) return <DestinationPage key={`${first}/${second}`} type={first} name={second} />;
  return <Board />;
}
