/** One line of figures for each part of the service. */
import type { ComponentChildren } from "preact";
import { href } from "../../app/router.ts";
import { Icon, type IconName } from "../../components/icons.tsx";
import { Status } from "../../components/status.tsx";
import { syncTone, syncWord } from "../../lib/sync-status.ts";
import { count, plural } from "../../lib/text.ts";
import type { Figures } from "./figures.ts";

interface Area {
  readonly label: string;
  readonly icon: IconName;
  readonly href: string;
  readonly figure: string;
  readonly details: ComponentChildren;
}

function areasOf(figures: Figures): Area[] {
  const statuses = [...figures.by("sync_associations", "status")].filter(([, value]) => value > 0);
  const destinations = new Set(figures.series("sync_associations").map(({ labels }) => labels["destination"])).size;
  const nodes = figures.sum("nodes");
  const ready = figures.sum("nodes", { status: "ready" });
  const hostVolumes = figures.sum("host_volumes");
  const csiVolumes = figures.sum("csi_volumes");
  return [
    {
      label: "Sync",
      icon: "sync" as const,
      href: href("sync"),
      figure: plural(figures.sum("sync_associations"), "association"),
      details:
        statuses.length === 0
          ? "No secret is synced yet."
          : statuses.map(([status, value]) => (
              <Status key={status} tone={syncTone(status)}>
                {`${count(value)} ${syncWord(status).toLowerCase()}`}
              </Status>
            )),
    },
    {
      label: "Destinations",
      icon: "link" as const,
      href: href("sync"),
      figure: `${plural(destinations, "destination")} in use`,
      details:
        figures.sum("sync_paused") > 0 ? (
          <Status tone="warn">paused</Status>
        ) : (
          `${count(figures.sum("sync_pending"))} changes on their way`
        ),
    },
    {
      label: "Credentials",
      icon: "credentials" as const,
      href: href("credentials"),
      figure: plural(figures.sum("leases"), "lease"),
      details:
        figures.sum("leases", { state: "irrevocable" }) > 0 ? (
          <Status tone="bad">some cannot be revoked</Status>
        ) : (
          "All leases end as they should."
        ),
    },
    {
      label: "Nodes",
      icon: "nodes" as const,
      href: href("nodes"),
      figure: plural(nodes, "node"),
      details: [
        <Status key="ready" tone={ready === nodes ? "ok" : "warn"}>{`${ready} ready`}</Status>,
        <span key="agents" class="muted">
          {plural(figures.sum("agents", { state: "connected" }), "agent")} connected
        </span>,
      ],
    },
    {
      label: "Storage",
      icon: "storage" as const,
      href: href("storage"),
      figure: plural(hostVolumes + csiVolumes, "volume"),
      details: `${count(hostVolumes)} host, ${count(csiVolumes)} CSI`,
    },
    {
      label: "Events",
      icon: "events" as const,
      href: href("events"),
      figure: `index ${count(figures.sum("event_index"))}`,
      details: `${plural(figures.sum("event_streams"), "stream")} open, ${plural(figures.sum("event_buffer_lines"), "line")} kept`,
    },
  ];
}

export function Areas({ figures }: { readonly figures: Figures }) {
  return (
    <div class="overview-areas">
      {areasOf(figures).map(({ label, icon, href: address, figure, details }) => (
        <a key={label} class="overview-area" href={address}>
          <span class="overview-area-label">
            <Icon name={icon} />
            {label}
          </span>
          <span class="overview-area-figure">{figure}</span>
          <span class="overview-area-details">{details}</span>
        </a>
      ))}
    </div>
  );
}
