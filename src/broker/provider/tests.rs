use super::*;

fn injected(injection: &Injection, before: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in before {
        headers.append(*name, HeaderValue::from_static(value));
    }
    injection.inject(&mut headers);
    headers
}

#[test]
fn the_command_is_told_the_url_and_the_token_of_each() {
    let expected: [(Provider, &[(&str, VariableValue)]); 4] = [
        (
            Provider::Anthropic,
            &[
                ("ANTHROPIC_BASE_URL", BaseUrl("")),
                ("ANTHROPIC_API_KEY", Token),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", Fixed("1")),
            ],
        ),
        (
            Provider::OpenAi,
            &[
                ("OPENAI_BASE_URL", BaseUrl("/v1")),
                ("OPENAI_API_BASE", BaseUrl("/v1")),
                ("OPENAI_API_KEY", Token),
            ],
        ),
        (
            Provider::Gemini,
            &[
                ("GOOGLE_GEMINI_BASE_URL", BaseUrl("")),
                ("GEMINI_API_KEY", Token),
            ],
        ),
        (
            Provider::Custom,
            &[
                ("GROOM_NS_BROKER_URL", BaseUrl("")),
                ("GROOM_NS_BROKER_TOKEN", Token),
            ],
        ),
    ];
    for (provider, expected) in expected {
        let told: Vec<_> = provider
            .variables()
            .iter()
            .map(|one| (one.name, one.value))
            .collect();
        assert_eq!(told, expected, "{provider}");
    }
}

#[test]
fn the_key_goes_where_the_api_looks_for_it() {
    for (provider, key, name, value, beta) in [
        (
            Provider::Anthropic,
            "sk-ant-api03-k",
            "x-api-key",
            "sk-ant-api03-k",
            None,
        ),
        (
            Provider::Anthropic,
            "sk-ant-oat01-k",
            "authorization",
            "Bearer sk-ant-oat01-k",
            Some("oauth-2025-04-20"),
        ),
        (
            Provider::OpenAi,
            "sk-ant-oat01-k",
            "authorization",
            "Bearer sk-ant-oat01-k",
            None,
        ),
        (Provider::Gemini, "AIzaK", "x-goog-api-key", "AIzaK", None),
    ] {
        let injection = Injection::new(provider, None, key.as_bytes()).expect("a key");
        let headers = injected(&injection, &[(name, "the client's"), (name, "another")]);
        let sent: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(sent, [value], "{provider}");
        assert!(sent[0].is_sensitive());
        assert_eq!(
            headers.get("anthropic-beta").map(HeaderValue::as_bytes),
            beta.map(str::as_bytes)
        );
        assert_eq!(headers.len(), 1 + usize::from(beta.is_some()));
        assert!(!format!("{injection:?} {headers:?}").contains(key), "shown");
    }
}

#[test]
fn the_oauth_flag_is_merged_once() {
    let injection = Injection::new(Provider::Anthropic, None, b"sk-ant-oat01-k").expect("a key");
    for (before, after) in [
        ("a-1", "a-1,oauth-2025-04-20"),
        ("a-1, b-2", "a-1, b-2,oauth-2025-04-20"),
        ("oauth-2025-04-20", "oauth-2025-04-20"),
        ("a-1, oauth-2025-04-20 ,b-2", "a-1, oauth-2025-04-20 ,b-2"),
        ("oauth-2025-04-201", "oauth-2025-04-201,oauth-2025-04-20"),
        ("", "oauth-2025-04-20"),
    ] {
        let headers = injected(&injection, &[("anthropic-beta", before)]);
        assert_eq!(headers["anthropic-beta"], after, "{before}");
    }
    let plain = Injection::new(Provider::Anthropic, None, b"sk-ant-api03-k").expect("a key");
    assert_eq!(
        injected(&plain, &[("anthropic-beta", "a-1")])["anthropic-beta"],
        "a-1"
    );
}

#[test]
fn custom_puts_the_key_in_the_header_that_was_named() {
    for (typed, name, value) in [
        ("X-Api-Key", "x-api-key", "k"),
        ("Authorization:Bearer", "authorization", "Bearer k"),
        ("Authorization: Bearer ", "authorization", "Bearer k"),
        (
            "Authorization:Token token=",
            "authorization",
            "Token token=k",
        ),
        ("x-a:b:c", "x-a", "b:c k"),
        ("X-Key:", "x-key", "k"),
        ("Cookie:session=", "cookie", "session=k"),
    ] {
        let auth = AuthHeader::judge(typed).expect(typed);
        let injection = Injection::new(Provider::Custom, Some(&auth), b"k").expect("a key");
        assert_eq!(injected(&injection, &[])[name], value, "{typed}");
        assert_eq!(auth.name().as_str(), name);
    }
}

#[test]
fn headers_that_cannot_carry_a_key_are_refused() {
    for typed in [
        "",
        ":Bearer",
        "X Key",
        "X-Key :v",
        "Ä",
        "Host",
        "Connection",
        "content-length",
        "Transfer-Encoding",
        "transfer_encoding",
        "TE",
        "Upgrade",
        "Keep-Alive",
        "Trailer",
        "Expect",
        "Proxy-Authorization",
        "proxy-connection",
        "Accept-Encoding",
        "Content-Type",
        "content_encoding",
        "X-Key:a\nb",
        "X-Key:\u{e4}",
        "X-Key:a\u{7f}",
    ] {
        let refusal = AuthHeader::judge(typed).expect_err(typed);
        assert_eq!(refusal.reason, Reason::Usage, "{typed}");
        assert!(!refusal.to_string().contains("Bearer"));
    }
}

#[test]
fn a_key_and_a_header_that_do_not_fit_are_refused() {
    let auth = AuthHeader::judge("X-Key").expect("a name");
    for (provider, auth, key, reason) in [
        (Provider::Custom, None, "k", Reason::Usage),
        (Provider::Anthropic, Some(&auth), "k", Reason::Usage),
        (Provider::OpenAi, None, "a\nb", Reason::Key),
        (Provider::Custom, Some(&auth), "a\0b", Reason::Key),
    ] {
        let refusal = Injection::new(provider, auth, key.as_bytes()).expect_err("refused");
        assert_eq!(refusal.reason, reason);
    }
}
