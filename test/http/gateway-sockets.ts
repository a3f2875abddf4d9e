import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from "node:http";
import { type AddressInfo, createConnection, createServer, type Server, type Socket } from "node:net";
import { createGateway } from "../../scripts/gateway.ts";
import { afterTest } from "./after-test.ts";

/** The text received by a socket; latin1, so that a character is a byte. */
function transcript() {
  let text = "";
  const waiters = new Set<() => void>();
  const changed = () => {
    for (const waiter of waiters) waiter();
  };
  return {
    listen(socket: Socket) {
      socket.on("error", () => {});
      socket.on("data", (bytes) => {
        text += bytes.toString("latin1");
        changed();
      });
    },
    text: () => text,
    received: (part: string) =>
      new Promise<string>((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`no ${JSON.stringify(part)} in ${JSON.stringify(text)}`)),
          5000,
        );
        const check = () => {
          if (!text.includes(part)) return;
          clearTimeout(timer);
          waiters.delete(check);
          resolve(text);
        };
        waiters.add(check);
        check();
      }),
  };
}

/** Answers without the time that the gateway adds to final ones. */
export const undated = (text: string): string => text.replace(/\r\nDate: [^\r]*GMT(?=\r\n)/g, "");

export async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  afterTest(async () => {
    for (const socket of sockets) socket.destroy();
    if (!server.listening) return;
    server.close();
    await once(server, "close");
  });
  return (server.address() as AddressInfo).port;
}

type GatewayOptions = Parameters<typeof createGateway>[1];

export async function clientOf(upstreamPort: number, options?: GatewayOptions) {
  return (await gatewayOf(upstreamPort, options)).connect();
}

/** A gateway, and how to connect to it. */
async function gatewayOf(upstreamPort: number, options?: GatewayOptions) {
  const gateway = createGateway(upstreamPort, options);
  const port = await listen(gateway);
  return { gateway, connect: () => connected(port) };
}

async function connected(port: number) {
  const socket = createConnection({ port, host: "127.0.0.1", allowHalfOpen: true });
  afterTest(() => socket.destroy());
  const { listen: follow, ...seen } = transcript();
  const closed = new Promise<void>((resolve, reject) => socket.on("end", resolve).on("error", reject));
  closed.catch(() => {});
  follow(socket);
  await once(socket, "connect");
  return {
    ...seen,
    socket,
    closed: () => closed,
    send: (...texts: string[]) => socket.write(Buffer.from(texts.join(""), "latin1")),
  };
}

/** A service that records its requests and sends the test's answers. */
export async function throughRecorder(options?: GatewayOptions) {
  let socket: Socket | undefined;
  const sockets = new Set<Socket>();
  const { listen: follow, ...seen } = transcript();
  const port = await listen(
    createServer({ allowHalfOpen: true }, (accepted) => {
      socket = accepted;
      sockets.add(accepted);
      accepted.on("close", () => sockets.delete(accepted));
      follow(accepted);
    }),
  );
  const live = () => {
    if (!socket) throw new Error("nobody has connected");
    return socket;
  };
  const upstream = {
    ...seen,
    socket: live,
    /** The open connections. */
    sockets: () => sockets,
    closed: () => new Promise((resolve) => live().on("close", resolve)),
    answer: (text: string) => live().write(Buffer.from(text, "latin1")),
  };
  const { gateway, connect } = await gatewayOf(port, options);
  return { upstream, gateway, connect, client: await connect() };
}

/** A real HTTP server; by default it answers `[METHOD /target body]`. */
export async function throughHttp(listener: RequestListener = describeRequest) {
  const port = await listen(createHttpServer({ keepAliveTimeout: 60_000 }, listener));
  const waiting: Array<() => void> = [];
  return { client: await clientOf(port), waiting };
}

async function describeRequest(request: IncomingMessage, response: Parameters<RequestListener>[1]): Promise<void> {
  let body = "";
  for await (const bytes of request.setEncoding("latin1")) body += bytes;
  response.end(`[${[request.method, request.url, body].join(" ").trimEnd()}]`);
}
