use super::*;

fn decide(provider: Provider, request: &str) -> Decision {
    decide_with(provider, &[], request)
}

fn decide_with(provider: Provider, extra: &[&str], request: &str) -> Decision {
    let extra = extra
        .iter()
        .map(|one| Route::judge(one).expect(one))
        .collect();
    let (method, path) = request.split_once(' ').expect("METHOD /path");
    let method = method.parse().expect("a method");
    Routes::of(provider, extra).decide(&method, path)
}

#[test]
fn health_and_the_root_are_answered_here() {
    for provider in Provider::ALL {
        for (request, decision) in [
            ("GET /healthz", Decision::Healthz),
            ("HEAD /healthz", Decision::Healthz),
            ("GET /", Decision::Root),
            ("HEAD /", Decision::Root),
            ("POST /", Decision::NotFound),
            ("POST /healthz", Decision::NotFound),
            ("OPTIONS /", Decision::NotFound),
            ("GET /healthz/", Decision::NotFound),
            ("GET /HEALTHZ", Decision::NotFound),
            ("GET /healthz/x", Decision::NotFound),
        ] {
            assert_eq!(decide(provider, request), decision, "{provider} {request}");
        }
    }
    let everything = ["GET /**", "POST /**"];
    assert_eq!(
        decide_with(Provider::Custom, &everything, "GET /healthz"),
        Decision::Healthz
    );
}

#[test]
fn each_provider_passes_on_its_own_routes() {
    let long = format!("GET /v1/models/{}", "m".repeat(128));
    for (provider, requests) in [
        (
            Provider::Anthropic,
            &[
                "POST /v1/messages",
                "POST /v1/messages/count_tokens",
                "GET /v1/models",
                "GET /v1/models/claude-opus-4-1@20250805",
                "GET /v1/models/a%40b",
                &long,
            ][..],
        ),
        (
            Provider::OpenAi,
            &[
                "POST /v1/responses",
                "POST /v1/chat/completions",
                "GET /v1/models",
                "GET /v1/models/gpt-4.1",
                "GET /v1/models/ft:gpt-4o:org::id",
                "GET /v1/models/ft%3Agpt-4o%3aorg",
                "GET /v1/models/..a",
            ],
        ),
        (
            Provider::Gemini,
            &[
                "POST /v1beta/models/gemini-2.5-pro:generateContent",
                "POST /v1beta/models/gemini-2.5-pro:streamGenerateContent",
                "POST /v1beta/models/gemini-2.5-pro:countTokens",
                "POST /v1/models/gemini-2.5-pro:generateContent",
                "POST /v1/models/gemini-2.5-pro:streamGenerateContent",
                "POST /v1/models/gemini-2.5-pro:countTokens",
                "GET /v1beta/models",
                "GET /v1beta/models/gemini-2.5-pro",
                "GET /v1/models",
                "GET /v1/models/gemini-2.5-pro",
            ],
        ),
        (
            Provider::Custom,
            &[
                "GET /v1/x",
                "HEAD /v1/x",
                "POST /v1/x/y/z",
                "PUT /v1/x/",
                "PATCH /v1/x%20y",
                "DELETE /v1/x",
            ],
        ),
    ] {
        for request in requests {
            assert_eq!(
                decide(provider, request),
                Decision::Forward,
                "{provider} {request}"
            );
        }
    }
}

const NOT_ANTHROPIC: &[&str] = &[
    "GET /v1/messages",
    "HEAD /v1/models",
    "OPTIONS /v1/messages",
    "POST /v1/messages/",
    "POST /v1/messages/batches",
    "POST /v1/messages/x",
    "POST /V1/messages",
    "POST /v1/Messages",
    "POST /v1/message",
    "POST /v1/messagesx",
    "POST /v1/messages/count_tokens/x",
    "POST /v1/%6dessages",
    "POST /x/v1/messages",
    "POST v1/messages",
    "POST //v1/messages",
    "GET /v1/models/",
    "GET /v1/models/a/b",
    "GET /v1/models/a%2Fb",
    "GET /v1/models/..",
    "GET /v1/models/.",
    "GET /v1/models/...",
    "GET /v1/models/a%2e",
    "GET /v1/models/%4",
    "GET /v1/models/%",
    "GET /v1/models/a;b",
    "GET /v1/models/a~b",
    "GET /v1/files",
    "POST /v1/files",
    "GET /v1/organizations/me",
    "POST /v1/complete",
    "POST /v1/responses",
];
const NOT_OPENAI: &[&str] = &[
    "POST /v1/batches",
    "POST /v1/completions",
    "POST /v1/embeddings",
    "GET /v1/responses/resp_1",
    "DELETE /v1/models/x",
    "POST /v1/chat",
    "POST /v1/messages",
    "POST /responses",
];
const NOT_GEMINI: &[&str] = &[
    "GET /v1beta/models/m:generateContent",
    "POST /v1beta/models/m:embedContent",
    "POST /v1beta/models/:generateContent",
    "POST /v1beta/models/m:x:generateContent",
    "POST /v1beta/models/m%3Ax:generateContent",
    "POST /v1beta/models/m%3AgenerateContent",
    "POST /v1beta/models/m:generateContent/x",
    "POST /v1beta/models/m:generatecontent",
    "POST /v1beta/models/..:generateContent",
    "POST /v1beta/models/a/b:generateContent",
    "POST /v1beta/tunedModels/m:generateContent",
    "GET /v1beta/models/m:x",
    "POST /v1alpha/models/m:generateContent",
    "POST /upload/v1beta/files",
];
const NOT_CUSTOM: &[&str] = &[
    "GET /v1",
    "GET /v1/",
    "GET /v1//x",
    "GET /v2/x",
    "GET /x/v1/y",
    "GET /V1/x",
    "OPTIONS /v1/x",
];

#[test]
fn everything_else_is_not_found() {
    for (provider, requests) in [
        (Provider::Anthropic, NOT_ANTHROPIC),
        (Provider::OpenAi, NOT_OPENAI),
        (Provider::Gemini, NOT_GEMINI),
        (Provider::Custom, NOT_CUSTOM),
    ] {
        for request in requests {
            assert_eq!(
                decide(provider, request),
                Decision::NotFound,
                "{provider} {request}"
            );
        }
    }
    let long = format!("GET /v1/models/{}", "m".repeat(129));
    assert_eq!(decide(Provider::Anthropic, &long), Decision::NotFound);
}

#[test]
fn routes_can_be_added() {
    for (route, request, decision) in [
        (
            "POST /v1/embeddings",
            "POST /v1/embeddings",
            Decision::Forward,
        ),
        (
            "POST /v1/embeddings",
            "GET /v1/embeddings",
            Decision::NotFound,
        ),
        (
            "POST /v1/embeddings",
            "POST /v1/responses",
            Decision::Forward,
        ),
        ("GET /v1/files/*", "GET /v1/files/f-1", Decision::Forward),
        ("GET /v1/files/*", "GET /v1/files", Decision::NotFound),
        (
            "GET /v1/files/*",
            "GET /v1/files/f-1/content",
            Decision::NotFound,
        ),
        (
            "GET /v1/files/*/content",
            "GET /v1/files/f-1/content",
            Decision::Forward,
        ),
        (
            "GET /v1/files/*/content",
            "GET /v1/files/content",
            Decision::NotFound,
        ),
        ("GET /v1/files/f-*", "GET /v1/files/f-1", Decision::Forward),
        ("GET /v1/files/f-*", "GET /v1/files/f-", Decision::NotFound),
        ("DELETE /v1/**", "DELETE /v1/a/b%20c/d/", Decision::Forward),
        ("DELETE /v1/**", "DELETE /v1/", Decision::NotFound),
        ("DELETE /v1/**", "DELETE /v1", Decision::NotFound),
        ("OPTIONS /a", "OPTIONS /a", Decision::Forward),
        ("GET /**", "GET /x", Decision::Forward),
    ] {
        assert_eq!(
            decide_with(Provider::OpenAi, &[route], request),
            decision,
            "{route} {request}"
        );
    }
    let embed = ["POST /v1beta/models/*:embedContent"];
    let request = "POST /v1beta/models/m:embedContent";
    assert_eq!(
        decide_with(Provider::Gemini, &embed, request),
        Decision::Forward
    );
    let nested = "POST /v1beta/models/m:x:embedContent";
    assert_eq!(
        decide_with(Provider::Gemini, &embed, nested),
        Decision::NotFound
    );
}

#[test]
fn a_route_reads_as_it_was_typed() {
    for typed in [
        "GET /v1/files/*",
        "POST /a:b",
        "PUT /x/**",
        "HEAD /.a/~!$&'()+,=@-_",
    ] {
        assert_eq!(Route::judge(typed).expect(typed).to_string(), typed);
    }
}

#[test]
fn what_no_request_could_match_is_refused() {
    for typed in [
        "",
        "GET",
        "/v1/x",
        "GET v1/x",
        "get /v1/x",
        "* /v1/x",
        "TRACE /x",
        "CONNECT /x",
        "GET  /v1/x",
        "GET /v1/x ",
        "GET\t/v1/x",
        "GET /",
        "GET //",
        "GET //x",
        "GET /v1//x",
        "GET /v1/x/",
        "GET /v1/../x",
        "GET /v1/./x",
        "GET /v1/...",
        "GET /v1/%2e",
        "GET /v1/a%20b",
        "GET /v1/a\\b",
        "GET /v1/a;b",
        "GET /v1/x?y=1",
        "GET /v1/x#y",
        "GET /v1/{id}",
        "GET /v1/\u{e4}",
        "GET /v1/a\nb",
        "GET /**/x",
        "GET /v1/a**",
        "GET /v1/*a*",
        "GET http://h/x",
        "GET /v1/***",
    ] {
        let refusal = Route::judge(typed).expect_err(typed);
        assert_eq!(refusal.reason, Reason::Usage, "{typed}");
    }
}
