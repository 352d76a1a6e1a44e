// Written by types.mjs from the API's OpenAPI document.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * Block
         * @description One part of a context.
         */
        Block: {
            /** Chars */
            chars: number;
            /** Items */
            items?: components["schemas"]["ContextItem"][];
            /**
             * Kind
             * @enum {string}
             */
            kind: "guardrails" | "asked" | "decided" | "documents" | "memories" | "rollups" | "exchanges" | "related" | "history" | "question";
            /** Text */
            text: string;
            /** Tokens */
            tokens: number;
        };
        /**
         * BrokenEvent
         * @description An item that could not be read or was refused; the others are stored.
         */
        BrokenEvent: {
            /** Reason */
            reason: string;
            /**
             * Where
             * @description Its place in the body; `body`: all of it.
             */
            where: string;
        };
        /**
         * ChangeReceipt
         * @description The result of an edit or a deletion.
         */
        ChangeReceipt: {
            /**
             * Outcome
             * @description `pending`: kept until the message comes; `kept_out`: it was deleted, or its sender is not remembered. Of a
             *     deletion, `kept_out`: no such message is stored; it was deleted before, or is unknown and dropped if it comes.
             * @enum {string}
             */
            outcome: "edited" | "unchanged" | "pending" | "deleted" | "kept_out";
            /** Request Id */
            request_id: string;
        };
        /**
         * ChatIn
         * @description A chat's own data; fields that are left out keep what is stored.
         */
        ChatIn: {
            /**
             * Chat Id
             * @description The platform's id with the platform as prefix, such as `telegram:-100200`.
             */
            chat_id: string | number;
            /**
             * Kind
             * @default null
             */
            kind?: ("group" | "direct" | "thread") | null;
            /**
             * Language
             * @description By name or ISO 639 code, such as `german`, `de` or `german+english`; `auto`: detected, as for a chat of which
             *     nobody says it.
             * @default null
             */
            language?: string | null;
            /**
             * Memory
             * @description Whether memory is made of its messages and searched; they are stored in any case.
             * @default null
             */
            memory?: boolean | null;
            /**
             * Platform
             * @description Such as `telegram` or `slack`; empty: the prefix of the chat id.
             * @default
             */
            platform?: string;
            /**
             * Time Zone
             * @description An IANA name, such as `Europe/Lisbon`.
             * @default null
             */
            time_zone?: string | null;
            /**
             * Title
             * @default null
             */
            title?: string | null;
        };
        /**
         * ChatMessage
         * @description A message ready for a chat model.
         */
        ChatMessage: {
            /** Content */
            content: string;
            /**
             * Role
             * @enum {string}
             */
            role: "system" | "user" | "assistant";
        };
        /**
         * Context
         * @description What a bot puts before its model.
         */
        Context: {
            /** Blocks */
            blocks: components["schemas"]["Block"][];
            /** Budget */
            budget: number;
            /** Context Id */
            context_id: string;
            /**
             * Counted By
             * @description The tokenizer that counted, such as `o200k_base`; or `estimate`, higher than the usual tokenizers.
             * @default estimate
             */
            counted_by?: string;
            /**
             * Degraded
             * @description What could not be done, such as `vectors: the embedding provider does not answer`.
             */
            degraded?: string[];
            /**
             * Evidence
             * @description Whether what was found answers the question. Null: it was not judged, as by questions for a time alone.
             */
            evidence?: ("strong" | "weak" | "none") | null;
            /**
             * Evidence Probability
             * @description The probability that it does, as learned on real talk.
             */
            evidence_probability?: number | null;
            explain?: components["schemas"]["Explanation"] | null;
            /**
             * Fell Back
             * @description Whether the whole chat was searched because no session matched well enough (profile `contextual`).
             * @default false
             */
            fell_back?: boolean;
            /**
             * Memories
             * @description Only with the profile `ask`.
             */
            memories?: components["schemas"]["MemoryPreview"][] | null;
            /**
             * Messages
             * @description The same as messages for a chat model: one for the system, one with the question.
             */
            messages: components["schemas"]["ChatMessage"][];
            /**
             * Text
             * @description All blocks as one text.
             */
            text: string;
            /** Used Tokens */
            used_tokens: number;
            /** Usedhistorytokens */
            usedHistoryTokens?: number | null;
        };
        /**
         * ContextItem
         * @description A message, session, week (`rollup`), memory or passage in a block.
         */
        ContextItem: {
            /**
             * Answers
             * @description The id of the message that it answers, where the text quotes that message.
             */
            answers?: string | null;
            /**
             * At
             * @description When it was said, or began.
             */
            at?: string | null;
            /** Id */
            id: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "message" | "session" | "rollup" | "memory" | "document";
            /**
             * Reason
             * @description Why this line is shown, in one sentence.
             */
            reason: string;
            /**
             * Score
             * @description The final score; null where the place decides (history, neighbours).
             */
            score?: number | null;
            /** Speaker */
            speaker?: string | null;
            /**
             * Text
             * @description As in the block.
             */
            text: string;
        };
        /**
         * ContextParameters
         * @description What of its profile a question may change; null: as the profile says.
         */
        ContextParameters: {
            /**
             * Daily Decay
             * @description What remains of a message's score after a day.
             * @default null
             */
            daily_decay?: number | null;
            /**
             * Documents
             * @description Passages of documents.
             * @default null
             */
            documents?: number | null;
            /**
             * Entity Hops
             * @description 1: also memories of what is related to what the question names.
             * @default null
             */
            entity_hops?: number | null;
            /**
             * History Tokens
             * @description Tokens of recent messages.
             * @default null
             */
            history_tokens?: number | null;
            /**
             * Memories
             * @description Statements, of all scopes together.
             * @default null
             */
            memories?: number | null;
            /**
             * Messages
             * @description Best messages.
             * @default null
             */
            messages?: number | null;
            /**
             * Messages Per Session
             * @description Best messages of one session.
             * @default null
             */
            messages_per_session?: number | null;
            /**
             * Min Session Fit
             * @description Look only into the best sessions, those that probably answer by at least this; 0: as the profile does.
             * @default null
             */
            min_session_fit?: number | null;
            /**
             * Min Similarity
             * @description Messages worth less than this share of the best ones are left out; below 0.45 nothing is shown anyway.
             * @default null
             */
            min_similarity?: number | null;
            /**
             * Mmr Lambda
             * @description Below 1, messages that are similar to better ones make way (maximal marginal relevance).
             * @default null
             */
            mmr_lambda?: number | null;
            /**
             * Neighbours
             * @description Messages shown on either side of each of the best.
             * @default null
             */
            neighbours?: number | null;
            /**
             * Related
             * @description Sessions that share topics with those that are shown.
             * @default null
             */
            related?: number | null;
            /**
             * Sessions
             * @description Of the best sessions, those that say what they were about, and that `contextual` looks into; as many of the weeks
             *     that the question names.
             * @default null
             */
            sessions?: number | null;
        };
        /**
         * ContextQuery
         * @description A question that a bot must answer: the body of `POST /v1/context`.
         */
        ContextQuery: {
            /**
             * Agent Id
             * @default null
             */
            agent_id?: (string | number) | null;
            /**
             * Alternate Roles
             * @description Whether `messages` alternate between user and assistant, as the templates of some models require.
             * @default false
             */
            alternate_roles?: boolean;
            /**
             * As Of
             * @description Only what was said and believed before this time. Null: until now.
             * @default null
             */
            as_of?: string | number | null;
            /**
             * Budget Tokens
             * @default null
             */
            budget_tokens?: number | null;
            /**
             * Chat Id
             * @description The chat that the bot answers in.
             */
            chat_id: string | number;
            /**
             * Explain
             * @default false
             */
            explain?: boolean;
            /**
             * Fill
             * @description Whether all of the budget is spent, also on what has little to do with the question.
             * @default false
             */
            fill?: boolean;
            /**
             * Hyde
             * @description Whether a language model (BACKSCROLL_HYDE_MODEL) makes up an answer to search with, where the question itself
             *     finds little. It may take 5 seconds; if none comes, `degraded` says why.
             * @default false
             */
            hyde?: boolean;
            /**
             * Include History
             * @description Whether the latest messages are shown. Also: `includeHistory`.
             * @default true
             */
            include_history?: boolean;
            /**
             * Max History Tokens
             * @description The maximum of tokens of the latest messages. Null: as the profile says. Also: `maxHistoryTokens`.
             * @default null
             */
            max_history_tokens?: number | null;
            /**
             * Model
             * @description The model that reads the context, such as `gpt-4.1-mini`: its tokenizer counts, if available.
             * @default null
             */
            model?: string | null;
            parameters?: components["schemas"]["ContextParameters"];
            /**
             * Profile
             * @description What to look for.
             *
             *     * `balanced`: For any bot, the default: the latest messages, and the sessions, messages, memories and documents that fit best.
             *     * `group`: For groups in which the last days matter most: the latest messages and twenty earlier ones; no memories or documents.
             *     * `ask`: For assistants that answer from what they were told: three memories, five passages, the latest messages.
             *     * `rag`: For questions about the last weeks: the five messages most like the question, worth 5 % less with each day of age, and many latest ones.
             *     * `agent`: For agents with threads of their own (`session_key`): the latest messages, ten earlier ones, memories of every scope.
             *     * `contextual`: For a look back at whole topics: the best messages of three sessions, and two related sessions.
             * @default balanced
             * @enum {string}
             */
            profile?: "balanced" | "group" | "ask" | "rag" | "agent" | "contextual";
            /**
             * Queries
             * @description Other wordings that are searched together with the question: rewrites, a translation, a hypothetical answer.
             *     A match with one of them counts somewhat less. Times, names and the kind of answer are read off the question only.
             */
            queries?: string[];
            /**
             * Query
             * @description The question, or the message that the bot reacts to.
             */
            query: string;
            /**
             * Session Key
             * @description Only sessions with this key. Null: all sessions of the chat. Also: `sessionId`.
             * @default null
             */
            session_key?: (string | number) | null;
            /**
             * Thread
             * @description The forum topic or thread that the bot answers in: recent messages are only from it.
             * @default null
             */
            thread?: (string | number) | null;
            /**
             * Top K Documents
             * @description The maximum of passages of documents. Null: as the profile says. Also: `topKDocs`.
             * @default null
             */
            top_k_documents?: number | null;
            /**
             * Top K Memories
             * @description The maximum of memories. Null: as the profile says. Also: `topKMems`.
             * @default null
             */
            top_k_memories?: number | null;
            /**
             * User Id
             * @default null
             */
            user_id?: (string | number) | null;
        };
        /**
         * Dropped
         * @description A candidate that is not shown, and why.
         */
        Dropped: {
            /**
             * Detail
             * @default
             */
            detail?: string;
            /**
             * Id
             * @description Empty for what the asker may not see: `detail` then has the number.
             */
            id: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "message" | "session" | "rollup" | "memory";
            /**
             * Reason
             * @enum {string}
             */
            reason: "budget" | "cap" | "duplicate" | "mmr" | "covered" | "below_minimum" | "audience";
        };
        /**
         * EditPayload
         * @description A message's new text: the body of `PATCH /v1/messages/{chat_id}/{external_id}`.
         */
        EditPayload: {
            /** Content */
            content: string;
            /**
             * Edited At
             * @description The platform's time of the edit; the newest edit wins. Null: now.
             * @default null
             */
            edited_at?: string | number | null;
            /**
             * V
             * @default 1
             * @constant
             */
            v?: 1;
        };
        /**
         * EventsReceipt
         * @description What became of a platform's payload.
         */
        EventsReceipt: {
            /**
             * Accepted
             * @description The number of messages stored.
             * @default 0
             */
            accepted: number;
            /**
             * Broken
             * @description What could not be read, the first 20.
             * @default []
             */
            broken: components["schemas"]["BrokenEvent"][];
            /**
             * Deletions
             * @description Deleted messages, which are kept out if they come later.
             * @default 0
             */
            deletions: number;
            /**
             * Duplicates
             * @description Those that were there already, by their platform's id.
             * @default 0
             */
            duplicates: number;
            /**
             * Edits
             * @description Edits that were applied, wait for their message, or changed nothing.
             * @default 0
             */
            edits: number;
            /**
             * Kept Out
             * @description Those that were not stored: forgotten, pruned, or of a sender who is not to be remembered.
             * @default 0
             */
            kept_out: number;
            /**
             * Left Out
             * @description Everything that is not stored, or not whole, by reason.
             * @default {}
             */
            left_out: {
                [key: string]: number;
            };
            /**
             * Members
             * @description People who came into a chat or left it.
             * @default 0
             */
            members: number;
            /**
             * Moves
             * @description Chats that got another id.
             * @default 0
             */
            moves: number;
            /**
             * Not Kept
             * @description What is not kept, by the platform's name of its kind; of more than 20 kinds the others as `other`.
             * @default {}
             */
            not_kept: {
                [key: string]: number;
            };
            /**
             * Request Id
             * @default
             */
            request_id: string;
        };
        /**
         * Explanation
         * @description How the context was made.
         */
        Explanation: {
            /**
             * Asked By
             * @description The asker's name in the context. Null: nobody was named.
             */
            asked_by?: string | null;
            /**
             * Brief
             * @description Words of recent messages that were added to the question.
             */
            brief?: string[];
            /**
             * Combined By
             * @description How the components of a hit of each kind make its score.
             */
            combined_by?: {
                [key: string]: "sum" | "product";
            };
            /**
             * Constants
             * @description The weights of the ranking and its other numbers, by name.
             */
            constants?: {
                [key: string]: number;
            };
            /** Dropped */
            dropped?: components["schemas"]["Dropped"][];
            /**
             * Evidence
             * @description What decided on the evidence, by signal: the parts of the logarithm of the odds.
             */
            evidence?: {
                [key: string]: number;
            };
            /**
             * Evidence Reasons
             * @description The same in plain words, most decisive first.
             */
            evidence_reasons?: string[];
            /**
             * Fell Back
             * @description Whether the whole scope was searched, because narrowing found nothing good enough.
             * @default false
             */
            fell_back?: boolean;
            /**
             * Keyword Search
             * @description How the keyword arm searched; `bounded`: only messages with the rarest of the words.
             * @enum {string}
             */
            keyword_search: "exact" | "bounded" | "off";
            /** Memories */
            memories?: components["schemas"]["Hit"][];
            /** Messages */
            messages?: components["schemas"]["Hit"][];
            /**
             * Parameters
             * @description The numbers of the profile, with what the question changed.
             */
            parameters: {
                [key: string]: unknown;
            };
            /** Profile */
            profile: string;
            /** Rows Compared */
            rows_compared: number;
            /** Sessions */
            sessions?: components["schemas"]["Hit"][];
            /**
             * Times
             * @description The times that the question prefers: `9 April 2026`, `before the trip: 3 May 2026, said by Ana`.
             */
            times?: string[];
            /**
             * Timings Ms
             * @description Milliseconds by stage.
             */
            timings_ms?: {
                [key: string]: number;
            };
            /** Tokens By Block */
            tokens_by_block?: {
                [key: string]: number;
            };
            /**
             * Unsure
             * @description Why the evidence cannot be none, such as few messages.
             * @default
             */
            unsure?: string;
            /**
             * Vector Search
             * @description How the vector arm searched `rows_compared` rows.
             * @enum {string}
             */
            vector_search: "exact" | "hnsw" | "off";
        };
        /**
         * Hit
         * @description A candidate with its rank and all parts of its score.
         */
        Hit: {
            /**
             * Arms
             * @description The rank, from 1, in what each arm found: `keywords`, `vectors`, `verbatim`, `times`, `named`, `newest`,
             *     `sessions`, `affinity`. Empty: it came with a neighbour, or with what it answers.
             */
            arms?: {
                [key: string]: number;
            };
            /** At */
            at?: string | null;
            /**
             * Components
             * @description Parts of the score by name, such as `words` and `meaning`; a session has those of its best message.
             */
            components?: {
                [key: string]: number;
            };
            /**
             * External Id
             * @description A message's id on its platform.
             */
            external_id?: string | null;
            /** Id */
            id: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "message" | "session" | "memory";
            /** Preview */
            preview: string;
            /**
             * Queries
             * @description For each arm that one of `queries` found it by, better than the question: the number of that query, from 1; a
             *     hypothetical answer's follows theirs.
             */
            queries?: {
                [key: string]: number;
            };
            /**
             * Rank
             * @description The final rank, from 1.
             */
            rank: number;
            /** Score */
            score: number;
            /** Session Id */
            session_id?: number | null;
            /**
             * Shown In
             * @description The block of the context that shows it. Null: `dropped` gives the reason why none does.
             */
            shown_in?: ("guardrails" | "asked" | "decided" | "documents" | "memories" | "rollups" | "exchanges" | "related" | "history" | "question") | null;
            /** Speaker */
            speaker?: string | null;
        };
        /**
         * IngestPayload
         * @description Messages of one chat: the body of `POST /v1/messages` and the arguments of `backscroll.ingest`.
         */
        IngestPayload: {
            /** @description The chat's id, or an object with its title, kind, time zone and language. */
            chat: components["schemas"]["ChatIn"] | (string | number);
            /**
             * Messages
             * @description One message or a list.
             */
            messages: components["schemas"]["MessageIn"][] | components["schemas"]["MessageIn"];
            /**
             * Tenant
             * @description The owner of the chat; over HTTP, the API key decides it.
             * @default null
             */
            tenant?: string | null;
            /**
             * V
             * @default 1
             * @constant
             */
            v?: 1;
        };
        /**
         * KnownMemory
         * @description A memory of a person, with where it comes from and what became of it.
         */
        KnownMemory: {
            /**
             * About
             * @description The name of whom it is about; empty: it names nobody.
             */
            about: string;
            /** Access Count */
            access_count: number;
            /**
             * Also In
             * @description Other chats where it was said.
             */
            also_in: components["schemas"]["NamedChat"][];
            /** Confidence */
            confidence: number;
            /** Content */
            content: string;
            /**
             * Edited At
             * @description Since when its words are those of somebody who edited it; null: they are the first ones.
             */
            edited_at: string | null;
            /** Expires At */
            expires_at: string | null;
            /** Holds From */
            holds_from: string | null;
            /** Holds Until */
            holds_until: string | null;
            /**
             * Id
             * Format: uuid
             */
            id: string;
            /** Importance */
            importance: number;
            /** Last Accessed At */
            last_accessed_at: string | null;
            /**
             * Learned By
             * @description The model or the rules that learned it; empty: written by hand or by a bot.
             */
            learned_by: string;
            /** @description The chat where it was learned first; null: in none. */
            learned_in: components["schemas"]["NamedChat"] | null;
            /**
             * Messages
             * @description Messages that say it, the latest last; none: it was written by hand or by a bot.
             */
            messages: components["schemas"]["NamedMessage"][];
            /**
             * Retracted At
             * @description Since when it is known to be wrong; null: it is not.
             */
            retracted_at: string | null;
            /**
             * Since
             * Format: date-time
             * @description When it was said first, or else written.
             */
            since: string;
            /** Source */
            source: string;
            /**
             * Superseded By
             * @description What has taken its place, the earliest first.
             */
            superseded_by: components["schemas"]["Superseder"][];
            /**
             * Type
             * @enum {string}
             */
            type: "fact" | "preference" | "goal" | "event" | "relation" | "decision" | "summary" | "qa_turn" | "learning" | "state" | "persona" | "scratchpad" | "document" | "manual";
        };
        /**
         * Line
         * @description A message of a session.
         */
        Line: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** External Id */
            external_id: string;
            /** Id */
            id: string;
            /** Role */
            role: string;
            /**
             * Score
             * @description Null for the neighbours of a match.
             */
            score?: number | null;
            /** Speaker */
            speaker: string;
            /** Text */
            text: string;
        };
        /**
         * LinkChange
         * @description The result of a link or merge, and the user as they are now.
         */
        LinkChange: {
            /**
             * Outcome
             * @enum {string}
             */
            outcome: "linked" | "unlinked" | "merged" | "unchanged";
            /** Request Id */
            request_id: string;
            /**
             * Seen
             * @description False: one of the ids is unknown; it may be misspelt, or of somebody still to come.
             */
            seen: boolean;
            user: components["schemas"]["User"];
        };
        /**
         * ListedMessage
         * @description A message as it was sent.
         */
        ListedMessage: {
            /** Agent Id */
            agent_id: string | null;
            /** Content */
            content: string;
            /** External Id */
            external_id: string;
            /** Metadata */
            metadata: {
                [key: string]: unknown;
            };
            /** Reply To */
            reply_to: string | null;
            /**
             * Role
             * @enum {string}
             */
            role: "user" | "assistant" | "system" | "tool";
            /** Sender Id */
            sender_id: string;
            /** Sender Name */
            sender_name: string;
            /**
             * Sent At
             * Format: date-time
             */
            sent_at: string;
            /** Session Key */
            session_key: string;
            /** Thread */
            thread: string | null;
        };
        /**
         * Memory
         * @description A stored memory.
         */
        Memory: {
            /** Access Count */
            access_count: number;
            /** Agent Id */
            agent_id: string | null;
            /**
             * Attribute
             * @description What it says something about, such as `home`: a newer one with the same attribute supersedes it.
             */
            attribute: string;
            /** Chunk Index */
            chunk_index: number | null;
            /**
             * Confidence
             * @description 0 to 1; grows when it is said again.
             */
            confidence: number;
            /** Content */
            content: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Document Id */
            document_id: string | null;
            /** Expires At */
            expires_at: string | null;
            /** Holds From */
            holds_from: string | null;
            /** Holds Until */
            holds_until: string | null;
            /**
             * Id
             * Format: uuid
             */
            id: string;
            /** Importance */
            importance: number;
            /** Last Accessed At */
            last_accessed_at: string | null;
            /**
             * Learned By
             * @description The model or the rules that learned it from a conversation; empty: written by hand or by a bot.
             */
            learned_by: string;
            /** Learned In */
            learned_in: string | null;
            /** Metadata */
            metadata: {
                [key: string]: unknown;
            };
            /**
             * Retracted At
             * @description Since when it is known to be wrong; null: it is not.
             */
            retracted_at: string | null;
            /**
             * Said At
             * @description When it was said first; null: when it was written.
             */
            said_at: string | null;
            /**
             * Scope
             * @enum {string}
             */
            scope: "session" | "user" | "agent" | "organization";
            /** Session Id */
            session_id: number | null;
            /** Source */
            source: string;
            /**
             * Subject
             * @description The name of whom it is about, as the chat has it; empty for the organization and where nobody is named.
             */
            subject: string;
            /**
             * Superseded At
             * @description Since when a newer one holds in its place; null: none does.
             */
            superseded_at?: string | null;
            /** Superseded By */
            superseded_by?: string | null;
            /**
             * Type
             * @enum {string}
             */
            type: "fact" | "preference" | "goal" | "event" | "relation" | "decision" | "summary" | "qa_turn" | "learning" | "state" | "persona" | "scratchpad" | "document" | "manual";
            /** User Id */
            user_id: string | null;
            /** Value */
            value: string;
        };
        /**
         * MemoryCorrection
         * @description What is wrong about a memory: the body of `POST /v1/memories/{memory_id}/correct`.
         */
        MemoryCorrection: {
            /**
             * Chat Id
             * @description The chat where the right statement was said: it is shown, and supersedes, where what was said there may be
             *     shown. Null: wherever the memory is shown.
             * @default null
             */
            chat_id?: (string | number) | null;
            /**
             * Content
             * @description The right statement, which supersedes the memory. Null: it is wrong, and nothing takes its place.
             * @default null
             */
            content?: string | null;
            /**
             * Said At
             * @description When that was said, after the memory itself. Null: now.
             * @default null
             */
            said_at?: string | number | null;
            /**
             * V
             * @default 1
             * @constant
             */
            v?: 1;
        };
        /**
         * MemoryEdit
         * @description Changes of a memory, what is left out stays: the body of `PATCH /v1/memories/{memory_id}`.
         */
        MemoryEdit: {
            /**
             * Content
             * @description New words. What is learned later does not change them.
             * @default null
             */
            content?: string | null;
            /**
             * Expires At
             * @description Null: never.
             * @default null
             */
            expires_at?: string | number | null;
            /**
             * Importance
             * @default null
             */
            importance?: number | null;
            /**
             * Metadata
             * @description Keys to set; a key that is null is removed.
             * @default null
             */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /**
             * V
             * @default 1
             * @constant
             */
            v?: 1;
        };
        /**
         * MemoryHit
         * @description A memory that was found.
         */
        MemoryHit: {
            /**
             * Arms
             * @description The rank, from 1, by each arm on its own: `keywords`, `vectors`.
             */
            arms: {
                [key: string]: number;
            };
            /**
             * Components
             * @description Parts of the score by name.
             */
            components: {
                [key: string]: number;
            };
            memory: components["schemas"]["Memory"];
            /** Rank */
            rank: number;
            /**
             * Score
             * @description The product of the components: the probability that it answers the query, `relevance`, times all others.
             */
            score: number;
        };
        /**
         * MemoryPage
         * @description Memories, newest first.
         */
        MemoryPage: {
            /** Memories */
            memories: components["schemas"]["Memory"][];
        };
        /**
         * MemoryPayload
         * @description A statement written by hand: the body of `POST /v1/memories`.
         */
        MemoryPayload: {
            /**
             * Agent Id
             * @default null
             */
            agent_id?: (string | number) | null;
            /**
             * Chunk Index
             * @default null
             */
            chunk_index?: number | null;
            /** Content */
            content: string;
            /**
             * Document Id
             * @default null
             */
            document_id?: (string | number) | null;
            /**
             * Expires At
             * @default null
             */
            expires_at?: string | number | null;
            /**
             * Importance
             * @description 0 to 10; 5 by default for the type `manual`, 1 for others.
             * @default 1
             */
            importance?: number;
            /**
             * Learned In
             * @description The chat where it was learned: it is shown only in chats whose members were all in that one.
             * @default null
             */
            learned_in?: (string | number) | null;
            /** Metadata */
            metadata?: {
                [key: string]: unknown;
            };
            /**
             * Said At
             * @description When it was said or learned. Null: now. Nothing said before it was forgotten is stored again.
             * @default null
             */
            said_at?: string | number | null;
            /**
             * Scope
             * @enum {string}
             */
            scope: "session" | "user" | "agent" | "organization";
            /**
             * Session Id
             * @default null
             */
            session_id?: number | null;
            /**
             * Source
             * @default
             */
            source?: string;
            /**
             * Type
             * @default manual
             * @enum {string}
             */
            type?: "fact" | "preference" | "goal" | "event" | "relation" | "decision" | "summary" | "qa_turn" | "learning" | "state" | "persona" | "scratchpad" | "document" | "manual";
            /**
             * User Id
             * @default null
             */
            user_id?: (string | number) | null;
            /**
             * V
             * @default 1
             * @constant
             */
            v?: 1;
        } & (unknown & unknown & unknown & unknown);
        /**
         * MemoryPreview
         * @description A memory that an `ask` context used.
         */
        MemoryPreview: {
            /** Id */
            id: string;
            /** Preview */
            preview: string;
            /** Score */
            score: number;
            /**
             * Source
             * @description What it was made of: `qa_turn` of a question and its answer, `manual` by hand, `summary` of a session, …
             * @enum {string}
             */
            source: "fact" | "preference" | "goal" | "event" | "relation" | "decision" | "summary" | "qa_turn" | "learning" | "state" | "persona" | "scratchpad" | "document" | "manual";
        };
        /**
         * MemoryPromotion
         * @description A wider scope for a memory: the body of `POST /v1/memories/{memory_id}/promote`.
         */
        MemoryPromotion: {
            /**
             * Agent Id
             * @default null
             */
            agent_id?: (string | number) | null;
            /**
             * Scope
             * @enum {string}
             */
            scope: "user" | "agent" | "organization";
            /**
             * User Id
             * @default null
             */
            user_id?: (string | number) | null;
            /**
             * V
             * @default 1
             * @constant
             */
            v?: 1;
        } & (unknown & unknown & unknown);
        /**
         * MemoryQuery
         * @description What to look for among the memories: the body of `POST /v1/memories/search`.
         *
         *     Without `chat_id` all of the tenant are searched. An empty filter (`"types": []`) matches nothing.
         */
        MemoryQuery: {
            /**
             * Agent Id
             * @default null
             */
            agent_id?: (string | number) | null;
            /**
             * As Of
             * @description What was believed at this time. Null: what is believed now.
             * @default null
             */
            as_of?: string | number | null;
            /**
             * Chat Id
             * @description Only memories that may be shown in this chat, to `user_id` if given.
             * @default null
             */
            chat_id?: (string | number) | null;
            /**
             * Fill
             * @description Also return what hardly answers the query.
             * @default false
             */
            fill?: boolean;
            /**
             * Limit
             * @default 10
             */
            limit?: number;
            /**
             * Metadata
             * @description Only memories whose metadata contains this, such as `{"topic": "boiler"}`.
             * @default null
             */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /**
             * Min Importance
             * @default null
             */
            min_importance?: number | null;
            /** Query */
            query: string;
            /**
             * Scope
             * @default null
             */
            scope?: ("session" | "user" | "agent" | "organization") | null;
            /**
             * Source
             * @default null
             */
            source?: string | null;
            /**
             * Types
             * @default null
             */
            types?: ("fact" | "preference" | "goal" | "event" | "relation" | "decision" | "summary" | "qa_turn" | "learning" | "state" | "persona" | "scratchpad" | "document" | "manual")[] | null;
            /**
             * User Id
             * @description Only memories of this user, by any of their ids.
             * @default null
             */
            user_id?: (string | number) | null;
        };
        /**
         * MemoryReceipt
         * @description The result of writing, changing or deleting a memory.
         */
        MemoryReceipt: {
            /**
             * Id
             * @description Null: it was not stored.
             */
            id: string | null;
            /**
             * Outcome
             * @description `known`: the same memory exists; `kept_out`: memory is off, or its subject was forgotten; `corrected`: the
             *     memory `id` has taken its place; `retracted`: it is history, and nothing has.
             * @enum {string}
             */
            outcome: "new" | "known" | "kept_out" | "edited" | "promoted" | "corrected" | "retracted" | "deleted";
            /** Request Id */
            request_id: string;
        };
        /**
         * MemoryResult
         * @description The result of a search for memories.
         */
        MemoryResult: {
            /**
             * Degraded
             * @description What could not be done, as in a context.
             */
            degraded?: string[];
            /**
             * Evidence
             * @description Whether the best of them answers the query: probably, perhaps, or not; never not where something is degraded.
             * @default none
             * @enum {string}
             */
            evidence?: "strong" | "weak" | "none";
            /**
             * Evidence Probability
             * @description How probable it is that the best of them answers; null: nothing was found.
             */
            evidence_probability?: number | null;
            /**
             * Hits
             * @description Best first.
             */
            hits: components["schemas"]["MemoryHit"][];
        };
        /**
         * MemorySwitch
         * @description Whether memory is on: the body of `PUT /v1/chats/{chat_id}/memory` and `PUT /v1/users/{user_id}/memory`.
         */
        MemorySwitch: {
            /** Memory */
            memory: boolean;
        };
        /**
         * MergePayload
         * @description The body of `POST /v1/users/{user_id}/merge`.
         */
        MergePayload: {
            /**
             * Into
             * @description The user that both become.
             */
            into: string | number;
            /**
             * V
             * @default 1
             * @constant
             */
            v?: 1;
        };
        /**
         * MessageHit
         * @description A message that was found, with its whole text.
         */
        MessageHit: {
            /**
             * Arms
             * @description The rank, from 1, in what each arm found: `keywords`, `vectors`, `verbatim`, `times`, `named`, `newest`,
             *     `sessions`, `affinity`. Empty: it came with a neighbour, or with what it answers.
             */
            arms?: {
                [key: string]: number;
            };
            /** At */
            at?: string | null;
            /**
             * Components
             * @description Parts of the score by name, such as `words` and `meaning`; a session has those of its best message.
             */
            components?: {
                [key: string]: number;
            };
            /**
             * External Id
             * @description A message's id on its platform.
             */
            external_id?: string | null;
            /** Id */
            id: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "message" | "session" | "memory";
            /** Preview */
            preview: string;
            /**
             * Queries
             * @description For each arm that one of `queries` found it by, better than the question: the number of that query, from 1; a
             *     hypothetical answer's follows theirs.
             */
            queries?: {
                [key: string]: number;
            };
            /**
             * Rank
             * @description The final rank, from 1.
             */
            rank: number;
            /** Role */
            role: string;
            /** Score */
            score: number;
            /** Session Id */
            session_id?: number | null;
            /**
             * Shown In
             * @description The block of the context that shows it. Null: `dropped` gives the reason why none does.
             */
            shown_in?: ("guardrails" | "asked" | "decided" | "documents" | "memories" | "rollups" | "exchanges" | "related" | "history" | "question") | null;
            /** Speaker */
            speaker?: string | null;
            /** Text */
            text: string;
        };
        /**
         * MessageIn
         * @description A message in a chat.
         */
        MessageIn: {
            /**
             * Agent Id
             * @description The bot or persona that sent or received the message.
             * @default null
             */
            agent_id?: (string | number) | null;
            /**
             * Closes Session
             * @description With a session_key: whether this message is the last of its session.
             * @default false
             */
            closes_session?: boolean;
            /** Content */
            content: string;
            /**
             * External Id
             * @description The platform's own id of the message, unique within its chat.
             */
            external_id: string | number;
            /**
             * Metadata
             * @description Further data, such as captions. With `forwarded_from`, a name or an empty text, the words are not the sender's.
             *     `tool_calls`, as chat models answer with them, are the text of a message that has none.
             */
            metadata?: {
                [key: string]: unknown;
            };
            /**
             * Position
             * @description Orders messages of the same time, such as the parts of a long answer. Without it they are ordered by
             *     their ids, if these are numbers, else as they are sent.
             * @default 0
             */
            position?: number;
            /**
             * Reply To
             * @description The external id of the message that this one answers, in the same chat; it need not be stored.
             * @default null
             */
            reply_to?: (string | number) | null;
            /**
             * Role
             * @default user
             * @enum {string}
             */
            role?: "user" | "assistant" | "system" | "tool";
            /**
             * Sender Id
             * @description The sender's id with the platform as prefix, such as `telegram:11`.
             */
            sender_id: string | number;
            /**
             * Sender Name
             * @default
             */
            sender_name?: string;
            /**
             * Sent At
             * @description The sender's time.
             */
            sent_at: string | number;
            /**
             * Session Key
             * @description A session that an agent names itself; empty: sessions are cut only by inactivity.
             * @default
             */
            session_key?: string | number;
            /**
             * Thread
             * @description The platform's id of a forum topic or thread, a conversation of its own within the chat.
             * @default null
             */
            thread?: (string | number) | null;
        };
        /**
         * MessageList
         * @description Messages of a chat, in order of time.
         */
        MessageList: {
            /** Messages */
            messages: components["schemas"]["ListedMessage"][];
        };
        /**
         * MessagesReceipt
         * @description The result of handing over messages.
         */
        MessagesReceipt: {
            /**
             * Accepted
             * @description The number of messages stored.
             */
            accepted: number;
            /**
             * Duplicates
             * @description Those that were there already, by their external_id.
             */
            duplicates: number;
            /**
             * Kept Out
             * @description Those that were not stored: forgotten, pruned, or of a sender who is not to be remembered.
             */
            kept_out: number;
            /** Request Id */
            request_id: string;
        };
        /**
         * NamedChat
         * @description A chat where something was said.
         */
        NamedChat: {
            /** Chat Id */
            chat_id: string;
            /** Title */
            title: string;
        };
        /**
         * NamedMessage
         * @description A message that says something.
         */
        NamedMessage: {
            /** Chat Id */
            chat_id: string;
            /** External Id */
            external_id: string;
            /**
             * Said At
             * Format: date-time
             */
            said_at: string;
            /** Sender Id */
            sender_id: string;
        };
        /**
         * Problem
         * @description The body of every answer that is not a success, as `application/problem+json`.
         */
        Problem: {
            /**
             * Detail
             * @description For people.
             */
            detail: string;
            /**
             * Field
             * @description The wrong part of the request, such as `messages.0.sent_at`.
             * @default null
             */
            field?: string | null;
            /**
             * Request Id
             * @description The id by which to find the log lines.
             */
            request_id: string;
            /** Status */
            status: number;
            /**
             * Title
             * @description The same for every problem of a type.
             */
            title: string;
            /**
             * Type
             * @description A name to switch on, `urn:backscroll:problem:…`.
             */
            type: string;
        };
        /**
         * ReceiptStatus
         * @description A receipt, and whether its job was given up.
         */
        ReceiptStatus: {
            /**
             * Counts
             * @description The number of rows removed, by kind; `found_again_…` is what verification found, and should be 0.
             */
            counts: {
                [key: string]: number;
            };
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Finished At
             * @description Null: not finished yet.
             */
            finished_at: string | null;
            /**
             * Given Up
             * @description Why it was given up and waits for an operator. Null: it is done or in progress.
             */
            given_up?: string | null;
            /** Id */
            id: number;
            /**
             * Kind
             * @description `removal`: a chat that may be imported again; `move`: a chat that got another id.
             */
            kind: ("message" | "user" | "chat" | "tenant") | ("removal" | "move");
            /**
             * Subject Hash
             * @description The subject, hashed with the tenant's key: receipts can be found only by those who know the subject.
             */
            subject_hash: string;
            /**
             * Until
             * Format: date-time
             * @description Everything sent or received until then is forgotten.
             */
            until: string;
        };
        /**
         * SearchQuery
         * @description What to look for, and where: the body of `POST /v1/search`.
         *
         *     A search never leaves its chat. Without filters it covers the whole chat; an empty filter (`"roles": []`)
         *     matches nothing.
         */
        SearchQuery: {
            /**
             * Agent Id
             * @description Only messages from or to this agent.
             * @default null
             */
            agent_id?: (string | number) | null;
            /**
             * Chat Id
             * @description The chat that the bot answers in.
             */
            chat_id: string | number;
            /**
             * Hyde
             * @description Whether a language model makes up an answer to search with where little is found, as in a context; not with the
             *     mode `exact`.
             * @default false
             */
            hyde?: boolean;
            /**
             * Limit
             * @description The maximum of messages; of sessions with the mode `topic`.
             * @default 10
             */
            limit?: number;
            /**
             * Metadata
             * @description Only messages whose metadata contains this, such as `{"topic": "boiler"}`.
             * @default null
             */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /**
             * Min Similarity
             * @description The minimum similarity of hits, as a cosine of all-MiniLM-L6-v2 whichever model embeds: 0.09 is that of unrelated
             *     texts, 0.73 that of texts that say the same. With `contextual` and `topic`, the minimum probability that a session
             *     answers; null: as the judge of relevance says. `exact` has none.
             * @default null
             */
            min_similarity?: number | null;
            /**
             * Mode
             * @default hybrid
             * @enum {string}
             */
            mode?: "hybrid" | "similar" | "topic" | "contextual" | "exact";
            /**
             * Queries
             * @description Other wordings that are searched together with it, as in a context; not with the mode `exact`.
             */
            queries?: string[];
            /**
             * Query
             * @description What to look for; with the mode `exact`, literally.
             */
            query: string;
            /**
             * Roles
             * @default null
             */
            roles?: ("user" | "assistant" | "system" | "tool")[] | null;
            /**
             * Sender Ids
             * @default null
             */
            sender_ids?: (string | number)[] | null;
            /**
             * Session Id
             * @description Only messages of this session, by its id from an earlier answer.
             * @default null
             */
            session_id?: number | null;
            /**
             * Session Key
             * @description Only messages with this session key.
             * @default null
             */
            session_key?: (string | number) | null;
            /**
             * Since
             * @description Only messages sent, or sessions going on, at this time or later.
             * @default null
             */
            since?: string | number | null;
            /**
             * Until
             * @description Only messages sent, or sessions going on, before this time.
             * @default null
             */
            until?: string | number | null;
            /**
             * User Id
             * @description Only messages of this user, under any of their ids.
             * @default null
             */
            user_id?: (string | number) | null;
        };
        /**
         * SearchResult
         * @description The result of a search.
         */
        SearchResult: {
            /**
             * Degraded
             * @description What could not be done, as in a context.
             */
            degraded?: string[];
            /**
             * Evidence
             * @description `hybrid`: whether what was found answers the query, as in a context; null: it was not judged.
             */
            evidence?: ("strong" | "weak" | "none") | null;
            /**
             * Evidence Probability
             * @description The probability that it does.
             */
            evidence_probability?: number | null;
            /**
             * Fell Back
             * @description `contextual`: whether no session matched well enough, so that `hits` are from the whole scope.
             * @default false
             */
            fell_back?: boolean;
            /**
             * Hits
             * @description Messages, best first (`exact`: newest first).
             */
            hits?: components["schemas"]["MessageHit"][];
            /**
             * Mode
             * @enum {string}
             */
            mode: "hybrid" | "similar" | "topic" | "contextual" | "exact";
            /**
             * Related
             * @description `contextual`: sessions that share people, places or topics with `sessions`.
             */
            related?: components["schemas"]["SessionHit"][];
            /**
             * Searched Back To
             * @description `exact`: older messages were not searched; repeat the search with `until` set to this to go on.
             */
            searched_back_to?: string | null;
            /**
             * Sessions
             * @description `contextual`: best first; `topic`: in order of time, with its `rank`.
             */
            sessions?: components["schemas"]["SessionHit"][];
            /**
             * Vector Search
             * @description `hybrid`, `similar` and `contextual`: how vectors were compared; `hnsw` only in large chats without filters.
             */
            vector_search?: ("exact" | "hnsw" | "off") | null;
        };
        /**
         * SessionHit
         * @description A session that was found.
         */
        SessionHit: {
            /**
             * Components
             * @description Parts of the score by name.
             */
            components: {
                [key: string]: number;
            };
            /**
             * Ended At
             * Format: date-time
             */
            ended_at: string;
            /** Message Count */
            message_count: number;
            /**
             * Messages
             * @description Matches, with the mode `contextual` also their neighbours, in order of time.
             */
            messages?: components["schemas"]["Line"][];
            /**
             * Rank
             * @description The rank by score, from 1, whatever the order of the list.
             */
            rank: number;
            /** Score */
            score: number;
            /** Session Id */
            session_id: number;
            /**
             * Started At
             * Format: date-time
             */
            started_at: string;
            /**
             * Summary
             * @description Null: not summarized.
             */
            summary: string | null;
            /** Topics */
            topics: string[];
        };
        /**
         * StartedReceipt
         * @description The receipt of a forgetting that has begun.
         */
        StartedReceipt: {
            /**
             * Counts
             * @description The number of rows removed, by kind; `found_again_…` is what verification found, and should be 0.
             */
            counts: {
                [key: string]: number;
            };
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Finished At
             * @description Null: not finished yet.
             */
            finished_at: string | null;
            /** Id */
            id: number;
            /**
             * Kind
             * @description `removal`: a chat that may be imported again; `move`: a chat that got another id.
             */
            kind: ("message" | "user" | "chat" | "tenant") | ("removal" | "move");
            /**
             * Seen
             * @description False: the id is unknown; it may be misspelt, or of somebody still to come.
             */
            seen: boolean;
            /**
             * Subject Hash
             * @description The subject, hashed with the tenant's key: receipts can be found only by those who know the subject.
             */
            subject_hash: string;
            /**
             * Until
             * Format: date-time
             * @description Everything sent or received until then is forgotten.
             */
            until: string;
        };
        /**
         * Subject
         * @description What to forget: a message, everything a user said, a chat, or all of a tenant's data.
         */
        Subject: {
            /**
             * Chat Id
             * @default null
             */
            chat_id?: (string | number) | null;
            /**
             * Confirm
             * @description The tenant's name once more; required to forget a tenant.
             * @default null
             */
            confirm?: string | null;
            /**
             * External Id
             * @default null
             */
            external_id?: (string | number) | null;
            /**
             * Kind
             * @enum {string}
             */
            kind: "message" | "user" | "chat" | "tenant";
            /**
             * Sender Id
             * @default null
             */
            sender_id?: (string | number) | null;
        } & (unknown & unknown & unknown & unknown);
        /**
         * Superseder
         * @description A memory that has taken the place of another one.
         */
        Superseder: {
            /** Content */
            content: string;
            /**
             * Id
             * Format: uuid
             */
            id: string;
            /**
             * Since
             * Format: date-time
             */
            since: string;
        };
        /**
         * Switched
         * @description The state of a memory switch.
         */
        Switched: {
            /** Memory */
            memory: boolean;
            /** Request Id */
            request_id: string;
            /**
             * Seen
             * @description False: the id is unknown; it may be misspelt, or of somebody still to come.
             */
            seen: boolean;
        };
        /**
         * User
         * @description A person, with their counts.
         */
        User: {
            /**
             * Chats
             * @description The number of chats where they are a member.
             */
            chats: number;
            /**
             * Memories
             * @description The number of memories of the scope `user`, documents aside.
             */
            memories: number;
            /**
             * Remembered
             * @description Whether their new messages are stored.
             */
            remembered: boolean;
            /**
             * Senders
             * @description Linked senders and merged users, besides the user's own id.
             */
            senders: string[];
            /** User Id */
            user_id: string;
        };
        /**
         * UserPage
         * @description A person, and what is known of them: first what holds, then what was believed earlier, each the latest first.
         */
        UserPage: {
            /**
             * Chats
             * @description The number of chats where they are a member.
             */
            chats: number;
            /** Current */
            current: components["schemas"]["KnownMemory"][];
            /** Earlier */
            earlier: components["schemas"]["KnownMemory"][];
            /**
             * Memories
             * @description The number of memories of the scope `user`, documents aside.
             */
            memories: number;
            /**
             * Remembered
             * @description Whether their new messages are stored.
             */
            remembered: boolean;
            /**
             * Senders
             * @description Linked senders and merged users, besides the user's own id.
             */
            senders: string[];
            /** User Id */
            user_id: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
