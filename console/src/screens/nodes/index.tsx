import { place } from "../../app/router.ts";
import { AllocationPage } from "./allocation.tsx";
import { JobPage } from "./job.tsx";
import { NodeLists } from "./lists.tsx";
import { NodePage } from "./node.tsx";

export default function NodesScreen() {
  const [kind, id] = place.value.segments;
  if (id !== undefined) {
    if (kind === "node") return <NodePage key={id} id={id} />;
    if (kind === "job") return <JobPage key={id} id={id} />;
    if (kind === "allocation") return <AllocationPage key={id} id={id} />;
  }
  return <NodeLists />;
}
