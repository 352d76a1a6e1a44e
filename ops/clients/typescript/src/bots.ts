/**
 * Hand over all that a bot of a framework sees and says: one line for each. Nothing here waits for memory or throws.
 *
 *     grammy(memory, bot);  discord(memory, client);  bolt(memory, app);  baileys(memory, socket);
 */
import type { Backscroll } from "./client.js";

/** What is used of the frameworks, so that none of them need be installed. */
interface Grammy {
  use(middleware: (ctx: any, next: () => Promise<void>) => Promise<void>): unknown;
  api: { config: { use(transformer: (previous: any, method: string, payload: any, signal: any) => Promise<any>): unknown } };
}
interface Discord {
  on(event: "raw", listener: (packet: any) => void): unknown;
}
interface Bolt {
  processEvent(event: any): Promise<void>;
}
interface Baileys {
  ev: { process(handler: (events: any) => void): unknown };
}

const TOLD_BY_DISCORD = /^(MESSAGE_(CREATE|UPDATE|DELETE|DELETE_BULK)|(CHANNEL|THREAD)_(CREATE|UPDATE)|THREAD_MEMBERS_UPDATE)$/;
/** The account's own keys are told in the same breath, and stay here. */
const TOLD_BY_BAILEYS = /^(messages\.(upsert|update|delete)|groups\.(upsert|update)|group-participants\.update)$/;

/** Before the bot's other middleware. What the bot says comes from the answers to its calls, as Telegram tells nobody of it. */
export function grammy(memory: Backscroll, bot: Grammy): void {
  bot.use((ctx, next) => {
    void memory.tee("telegram", ctx.update);
    return next();
  });
  bot.api.config.use(async (previous, method, payload, signal) => {
    const answer = await previous(method, payload, signal);
    for (const sent of answer.ok ? [answer.result].flat() : []) if (sent?.message_id && sent.chat && sent.date) void memory.tee("telegram", sent);
    return answer;
  });
}

/** With the intents GuildMessages, MessageContent and DirectMessages the gateway tells of everything. */
export function discord(memory: Backscroll, client: Discord): void {
  client.on("raw", (packet) => {
    if (TOLD_BY_DISCORD.test(packet?.t)) void memory.tee("discord", packet);
  });
}

/** What the app's receiver took for Slack's, before the app leaves out its own messages. */
export function bolt(memory: Backscroll, app: Bolt): void {
  const process = app.processEvent.bind(app);
  app.processEvent = (event) => {
    if (event.body?.type === "event_callback") void memory.tee("slack", event.body);
    return process(event);
  };
}

/** Messages, edits, deletions and members, with those of the bot's own account. */
export function baileys(memory: Backscroll, socket: Baileys): void {
  socket.ev.process((events) => {
    const told = Object.entries(events).filter(([name]) => TOLD_BY_BAILEYS.test(name));
    if (told.length) void memory.tee("baileys", Object.fromEntries(told));
  });
}
