struct A { password: String }
let token = get_token();
const API_KEY: &str = "abcdef123456";
let key = map.key();
max_tokens = 4096; password = String::from("hunter2");
#define API_KEY "abcdefgh12345678"
