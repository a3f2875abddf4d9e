import { chmod, unlink } from "node:fs/promises";
import { connect } from "node:net";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import { methodOf, type Rpc } from "@sallyport/csi-wire";
import { controllerCalls } from "./controller.ts";
import type { Driver } from "./driver.ts";
import { identityCalls } from "./identity.ts";
import { nodeCalls } from "./node.ts";
import { codeOf, refusalOf } from "./refusal.ts";

type AnyCall = (request: { secrets?: Readonly<Record<string, string>> }) => Promise<object>;

/** Serves a driver on a unix socket; a stale socket file is removed. @throws when the socket is already served */
export async function serve(driver: Driver, socket: string): Promise<Server> {
  const { roles } = driver.settings;
  const server = new Server({ "grpc.max_receive_message_length": 16 * 1024 * 1024 });
  const calls = {
    ...identityCalls(driver),
    ...(roles.includes("controller") ? controllerCalls(driver) : {}),
    ...(roles.includes("node") ? nodeCalls(driver) : {}),
  };
  for (const [rpc, call] of Object.entries(calls) as [Rpc, AnyCall][])
    server.addService({ [rpc]: methodOf(rpc) }, { [rpc]: handlerOf(driver, rpc, call) });
  await removeStale(socket);
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (failure) =>
      failure ? reject(failure) : resolve(),
    );
  });
  // Access is controlled by the socket's directory and group.
  await chmod(socket, 0o660);
  return server;
}

function handlerOf({ faults }: Driver, rpc: Rpc, call: AnyCall) {
  return (
    { request }: ServerUnaryCall<{ secrets?: Readonly<Record<string, string>> }, object>,
    answer: sendUnaryData<object>,
  ) => {
    faults
      .around(rpc, request.secrets, () => call(request))
      .then(
        (response) => answer(null, response),
        (failure) => {
          const { code, message } = refusalOf(failure);
          answer({ code, details: message });
        },
      );
  };
}

async function removeStale(socket: string): Promise<void> {
  if (await isServed(socket)) throw new Error(`another process serves on ${socket} already`);
  await unlink(socket).catch((failure) => {
    if (codeOf(failure) !== "ENOENT") throw failure;
  });
}

function isServed(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const attempt = connect(socket);
    attempt.once("connect", () => {
      attempt.destroy();
      resolve(true);
    });
    attempt.once("error", () => resolve(false));
  });
}
