// Start the example bot as it is with the real Baileys, whose socket is not connected: start_baileys.mjs BOT PACKAGES.
// Each line of standard input is a WebMessageInfo that comes; what the bot sends is a line of standard output.
import { createRequire, register } from "node:module";
import { pathToFileURL } from "node:url";

const [bot, packages] = process.argv.slice(2);
const find = createRequire(`${packages}/`).resolve;
const urls = { real: pathToFileURL(find("baileys")).href, openai: pathToFileURL(find("openai")).href };

// the package as it is, but for its socket: an event buffer of its own without a connection
const socket = `
  export * from ${JSON.stringify(urls.real)};
  import * as real from ${JSON.stringify(urls.real)};
  import { createInterface } from "node:readline";
  const { generateWAMessage, makeEventBuffer, proto } = real.proto ? real : real.default;
  const quiet = () => {};
  const logger = { level: "silent", trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet, child: () => logger };
  export const makeWASocket = () => {
    const ev = makeEventBuffer(logger);
    const come = (message, type) => ev.emit("messages.upsert", { type, messages: [message] });
    createInterface({ input: process.stdin }).on("line", (line) => {
      const { WebMessageInfo } = proto;
      // as it is decoded from what the server sends
      come(WebMessageInfo.decode(WebMessageInfo.encode(WebMessageInfo.fromObject(JSON.parse(line))).finish()), "notify");
    });
    const sendMessage = async (jid, content) => {
      const message = await generateWAMessage(jid, content, { logger, userJid: "1555@s.whatsapp.net" });
      console.log(JSON.stringify(message));
      come(message, "append");
      return message;
    };
    return { ev, sendMessage };
  };`;
const hooks = `
  const urls = ${JSON.stringify({ ...urls, baileys: `data:text/javascript,${encodeURIComponent(socket)}` })};
  export const resolve = (name, context, next) => (urls[name] ? { url: urls[name], shortCircuit: true } : next(name, context));`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
await import(pathToFileURL(bot));
