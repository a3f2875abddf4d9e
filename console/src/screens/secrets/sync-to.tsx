import { LinkButton } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { useResource } from "../../lib/resource.ts";
import { createHref } from "../sync/addresses.ts";
import { readDestinations } from "../sync/reads.ts";
import { SyncSecretForm } from "../sync/sync-secret.tsx";

interface SyncToProps {
  readonly mount: string;
  readonly path: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Associates a secret with a destination; says before what that would do. */
export function SyncTo({ mount, path, onClose, onDone }: SyncToProps) {
  const destinations = useResource(["all-destinations"], readDestinations);
  if (destinations.value && destinations.value.length > 0)
    return (
      <SyncSecretForm
        destinations={destinations.value}
        of={{ mount, secret: path }}
        onClose={onClose}
        onDone={() => {
          onDone();
          onClose();
        }}
      />
    );
  return (
    <Dialog title={`Sync ${path}`} onClose={onClose} shape="side">
      <Loaded resource={destinations} label="The destinations">
        {() => (
          <Empty title="No destination yet" actions={<LinkButton href={createHref()}>Create destination</LinkButton>}>
            Create one first: it holds the credentials of the place where secrets go.
          </Empty>
        )}
      </Loaded>
    </Dialog>
  );
}
